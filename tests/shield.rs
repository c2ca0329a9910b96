//! The shield on real sockets.

//! Who is connected to one port: the bounds on connections, addresses and streams, and who has to
//! go when there is no room. Shared by the accepting thread and the connections' threads; its lock
//! is never held across a read or a write.

use std::collections::VecDeque;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::base::sync::lock;
use crate::domain::limits::Limits;

/// Connections beyond the bound that are told so at once, and threads of closed connections that
/// have not ended yet: each bound holds by itself.
const SPARE_THREADS: usize = 16;

/// The table of one port's connections.
#[derive(Debug)]
pub(super) struct Room {
    state: Mutex<State>,
    ended: Condvar,
    connections: usize,
    per_address: usize,
    streams: usize,
}

#[derive(Debug, Default)]
struct State {
    seats: VecDeque<Seat>,
    next: usize,
    threads: usize,
    refusing: usize,
    streams: usize,
    closing: bool,
}

#[derive(Debug)]
struct Seat {
    id: usize,
    address: IpAddr,
    socket: Arc<TcpStream>,
    /// Since when it waits for its next head; none while a request is in work.
    waiting_since: Option<Instant>,
}

/// What becomes of a new connection.
#[derive(Debug)]
pub(super) enum Admission {
    /// It is served.
    Seated(Ticket),
    /// It is told why not.
    Refused(Ticket, &'static str),
    /// Even for that there is no room.
    TurnedAway,
}

/// A connection's entry; gives its place back when dropped.
#[derive(Debug)]
pub(super) struct Ticket {
    room: Arc<Room>,
    /// None for a connection that is only told that there is no room.
    seat: Option<usize>,
}

impl Room {
    pub(super) fn new(limits: &Limits) -> Room {
        Room {
            state: Mutex::default(),
            ended: Condvar::new(),
            connections: limits.front_connections,
            per_address: limits.front_per_address,
            streams: limits.front_streams,
        }
    }

    /// Finds a place for a new connection. When all are taken, the one that has waited longest for
    /// its head is closed to make room.
    ///
    /// Blocks: up to a tenth of a second, while closed connections' threads end.
    pub(super) fn admit(
        self: &Arc<Room>,
        socket: &Arc<TcpStream>,
        address: IpAddr,
        now: Instant,
    ) -> Admission {
        let address = address.to_canonical();
        let mut state = lock(&self.state);
        if !address.is_loopback() {
            let same = state.seats.iter().filter(|seat| seat.address == address);
            if same.count() >= self.per_address {
                return self.refuse(&mut state, "too many connections from this address");
            }
        }
        if state.seats.len() >= self.connections && !close_longest_waiting(&mut state) {
            return self.refuse(&mut state, "all connections are in work");
        }
        let full = |state: &mut State| state.threads >= self.connections + SPARE_THREADS;
        if full(&mut state) {
            state = self
                .ended
                .wait_timeout_while(state, Duration::from_millis(100), full)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            if full(&mut state) {
                return self.refuse(&mut state, "too many connections");
            }
        }
        let id = state.next;
        state.next = state.next.wrapping_add(1);
        state.threads += 1;
        state.seats.push_back(Seat {
            id,
            address,
            socket: Arc::clone(socket),
            waiting_since: Some(now),
        });
        Admission::Seated(Ticket {
            room: Arc::clone(self),
            seat: Some(id),
        })
    }

    fn refuse(self: &Arc<Room>, state: &mut State, why: &'static str) -> Admission {
        if state.refusing >= SPARE_THREADS {
            return Admission::TurnedAway;
        }
        state.refusing += 1;
        let ticket = Ticket {
            room: Arc::clone(self),
            seat: None,
        };
        Admission::Refused(ticket, why)
    }

    /// Closes the connection that has waited longest for its head, to get its descriptor back.
    pub(super) fn make_room(&self) {
        close_longest_waiting(&mut lock(&self.state));
    }

    /// Whether the port is closing: the answer in work is its connection's last.
    pub(super) fn closing(&self) -> bool {
        lock(&self.state).closing
    }

    /// Lets no connection begin another request and closes those that wait for one.
    pub(super) fn close(&self) {
        let mut state = lock(&self.state);
        state.closing = true;
        while close_longest_waiting(&mut state) {}
    }

    /// Closes every connection, whatever it does.
    pub(super) fn close_all(&self) {
        let mut state = lock(&self.state);
        for seat in state.seats.drain(..) {
            // One that is gone already is what was wanted.
            let _ = seat.socket.shutdown(Shutdown::Both);
        }
    }

    /// Waits until every connection's thread has ended; says whether that came in time.
    ///
    /// Blocks: for `patience` at most.
    pub(super) fn empty(&self, patience: Duration) -> bool {
        let state = lock(&self.state);
        let (state, _) = self
            .ended
            .wait_timeout_while(state, patience, |state| state.threads + state.refusing > 0)
            .unwrap_or_else(PoisonError::into_inner);
        state.threads + state.refusing == 0
    }

    /// A place among the streams of this port, as long as there is one.
    pub(super) fn stream(self: &Arc<Room>) -> Option<StreamPlace> {
        let mut state = lock(&self.state);
        if state.streams >= self.streams {
            return None;
        }
        state.streams += 1;
        Some(StreamPlace(Arc::clone(self)))
    }
}

/// A place among a port's streams; given back when dropped.
#[derive(Debug)]
pub struct StreamPlace(Arc<Room>);

impl Drop for StreamPlace {
    fn drop(&mut self) {
        lock(&self.0.state).streams -= 1;
    }
}

/// Takes the seat that has waited longest out of the table and closes its socket, which ends its
/// thread's read. A seat with a request in work is never touched: both marks are set under the lock.
fn close_longest_waiting(state: &mut State) -> bool {
    let longest = state
        .seats
        .iter()
        .enumerate()
        .filter_map(|(index, seat)| Some((seat.waiting_since?, index)))
        .min();
    let Some(seat) = longest.and_then(|(_, index)| state.seats.remove(index)) else {
        return false;
    };
    let _ = seat.socket.shutdown(Shutdown::Both);
    true
}

impl Ticket {
    /// The port's table.
    pub(super) fn room(&self) -> &Arc<Room> {
        &self.room
    }

    /// Marks that the connection waits for its next head. False: it has to close.
    pub(super) fn wait_for_head(&self, now: Instant) -> bool {
        let mut state = lock(&self.room.state);
        !state.closing && self.mark(&mut state, Some(now))
    }

    /// Marks that the connection may be closed to make room: its last answer is out.
    pub(super) fn yield_place(&self) {
        self.mark(&mut lock(&self.room.state), Some(Instant::now()));
    }

    /// Marks that a request is in work. False: it has been closed to make room.
    pub(super) fn begin_work(&self) -> bool {
        self.mark(&mut lock(&self.room.state), None)
    }

    fn mark(&self, state: &mut State, waiting_since: Option<Instant>) -> bool {
        let seat = state
            .seats
            .iter_mut()
            .find(|seat| Some(seat.id) == self.seat);
        match seat {
            Some(seat) => {
                seat.waiting_since = waiting_since;
                true
            }
            None => false,
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut state = lock(&self.room.state);
        if let Some(id) = self.seat {
            state.seats.retain(|seat| seat.id != id);
            state.threads -= 1;
        } else {
            state.refusing -= 1;
        }
        drop(state);
        self.room.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn socket() -> Arc<TcpStream> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Arc::new(TcpStream::connect(listener.local_addr().unwrap()).unwrap())
    }

    fn room(connections: usize, per_address: usize) -> Arc<Room> {
        Arc::new(Room::new(&Limits {
            front_connections: connections,
            front_per_address: per_address,
            front_streams: 2,
            ..Limits::default()
        }))
    }

    fn seated(admission: Admission) -> Option<Ticket> {
        match admission {
            Admission::Seated(ticket) => Some(ticket),
            _ => None,
        }
    }

    #[test]
    fn the_one_that_waited_longest_makes_room_and_work_is_never_touched() {
        let (room, start) = (room(3, 9), Instant::now());
        let home = IpAddr::from([127, 0, 0, 1]);
        let at = |ms| start + Duration::from_millis(ms);
        let seat = |ms| seated(room.admit(&socket(), home, at(ms)));
        let (first, second, third) = (seat(1).unwrap(), seat(2).unwrap(), seat(3).unwrap());
        assert!(first.begin_work() && second.begin_work() && second.wait_for_head(at(9)));
        let fourth = seat(10).unwrap();
        assert!(!third.begin_work(), "the third had waited longest");
        assert!(second.begin_work() && fourth.begin_work());
        assert!(matches!(
            room.admit(&socket(), home, at(11)),
            Admission::Refused(..)
        ));
        drop(first);
        assert!(seat(12).is_some());
    }

    #[test]
    fn an_address_has_its_own_bound_and_loopback_has_not() {
        let room = room(9, 2);
        let now = Instant::now();
        let mapped: IpAddr = "::ffff:203.0.113.9".parse().unwrap();
        let plain: IpAddr = "203.0.113.9".parse().unwrap();
        let held: Vec<_> = [plain, mapped]
            .into_iter()
            .map(|address| seated(room.admit(&socket(), address, now)).unwrap())
            .collect();
        assert!(seated(room.admit(&socket(), plain, now)).is_none());
        let others: Vec<IpAddr> = vec![
            "203.0.113.8".parse().unwrap(),
            "::1".parse().unwrap(),
            "127.0.0.1".parse().unwrap(),
            "127.0.0.1".parse().unwrap(),
            "127.0.0.1".parse().unwrap(),
        ];
        let rest: Vec<_> = others
            .into_iter()
            .map(|address| seated(room.admit(&socket(), address, now)).unwrap())
            .collect();
        drop(held);
        assert!(seated(room.admit(&socket(), plain, now)).is_some());
        drop(rest);
        assert!(room.empty(Duration::ZERO));
    }

    #[test]
    fn refusing_is_bounded_too() {
        let room = room(0, 9);
        let home = IpAddr::from([127, 0, 0, 1]);
        let held: Vec<_> = (0..SPARE_THREADS + 1)
            .map(|_| room.admit(&socket(), home, Instant::now()))
            .collect();
        assert!(matches!(held.last(), Some(Admission::TurnedAway)));
        assert!(!room.empty(Duration::ZERO));
        drop(held);
        assert!(room.empty(Duration::ZERO));
    }

    #[test]
    fn a_closing_room_begins_nothing() {
        let (room, now) = (room(3, 9), Instant::now());
        let home = IpAddr::from([127, 0, 0, 1]);
        let working = seated(room.admit(&socket(), home, now)).unwrap();
        let idle = seated(room.admit(&socket(), home, now)).unwrap();
        assert!(working.begin_work());
        room.close();
        assert!(!idle.begin_work() && working.begin_work());
        assert!(!working.wait_for_head(now));
    }

    #[test]
    fn streams_are_counted() {
        let room = room(3, 9);
        let (one, two) = (room.stream(), room.stream());
        assert!(one.is_some() && two.is_some() && room.stream().is_none());
        drop(one);
        assert!(room.stream().is_some());
    }
}

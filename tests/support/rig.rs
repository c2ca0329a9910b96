//! Rigs that a machine may lack: a test that needs one passes over with a sentence, unless
//! `KORVUN_REQUIRE` (names with commas between them) says that it must be there.

/// Says that a test passes over for want of `rig`.
///
/// # Panics
/// Where the rig is required.
pub fn missing(rig: &str, why: &str) {
    let required =
        std::env::var("KORVUN_REQUIRE").is_ok_and(|rigs| rigs.split(',').any(|named| named == rig));
    assert!(!required, "{rig} is required here: {why}");
    println!("skipped, no {rig}: {why}");
}

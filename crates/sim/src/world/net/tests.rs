use super::*;

const CLIENT: ClientId = ClientId(1);

fn received(bytes: &[u8], more: bool) -> Event {
    Event::Received { client: CLIENT, bytes: bytes.to_vec(), more }
}

fn pipe(manners: Manners) -> Pipe {
    Pipe::new(manners, true)
}

#[test]
fn what_is_sent_arrives_whole_and_is_read_in_parts() {
    let mut pipe = pipe(Manners::PLAIN);
    pipe.send(b"abc");
    assert!(pipe.has_under_way());
    assert!(pipe.deliver(false, &mut 1, &mut Troubles::default()));
    assert!(!pipe.has_under_way());
    assert_eq!(pipe.read(CLIENT, 2), received(b"ab", true));
    assert_eq!(pipe.read(CLIENT, 2), received(b"c", false));
    assert_eq!(pipe.read(CLIENT, 2), received(b"", false));
}

#[test]
fn pieces_are_what_was_sent_and_lie_there_as_one() {
    let manners = Manners { piece_bytes_max: 1, ..Manners::PLAIN };
    let mut pipe = pipe(manners);
    pipe.send(b"ab");
    pipe.send(b"c");
    assert!(pipe.deliver(true, &mut 1, &mut Troubles::default()));
    assert_eq!(pipe.read(CLIENT, 9), received(b"a", true));
    pipe.join_arrived();
    assert_eq!(pipe.read(CLIENT, 9), received(b"bc", false));
}

#[test]
fn the_end_comes_after_what_was_sent() {
    let mut pipe = pipe(Manners::PLAIN);
    pipe.send(b"a");
    pipe.part(Parting::Close);
    pipe.send(b"too late");
    assert!(!pipe.ending_arrives(), "something is under way before it");
    pipe.deliver(true, &mut 1, &mut Troubles::default());
    assert!(pipe.ending_arrives());
    assert!(!pipe.ending_arrives(), "it is told once");
    assert_eq!(pipe.read(CLIENT, 9), received(b"a", true));
    assert_eq!(pipe.read(CLIENT, 9), Event::Ended(CLIENT));
    assert_eq!(pipe.write(b"x", (1, 1), &mut 1, &mut Troubles::default()), None, "nobody is there");
}

#[test]
fn a_half_closed_one_still_hears() {
    let mut pipe = pipe(Manners::PLAIN);
    pipe.part(Parting::HalfClose);
    assert!(pipe.ending_arrives());
    assert_eq!(pipe.write(b"x", (7, 9), &mut 1, &mut Troubles::default()), Some(1));
    assert_eq!(pipe.hear(), [Chunk { turn: 7, at_ms: 9, bytes: b"x".to_vec() }]);
}

#[test]
fn of_one_that_was_reset_nothing_is_left() {
    let mut pipe = pipe(Manners::PLAIN);
    pipe.send(b"a");
    pipe.deliver(true, &mut 1, &mut Troubles::default());
    pipe.send(b"b");
    pipe.part(Parting::Reset);
    assert!(!pipe.has_under_way());
    assert_eq!(pipe.read(CLIENT, 9), Event::Gone(CLIENT));
}

#[test]
fn who_does_not_read_is_written_to_until_the_window_is_full() {
    let mut pipe = pipe(Manners::PLAIN);
    assert!(!pipe.set_reading(false));
    assert!(!pipe.has_unread());
    let long = [b'x'; WINDOW_BYTES + 1];
    assert_eq!(pipe.write(&long, (1, 1), &mut 1, &mut Troubles::default()), Some(WINDOW_BYTES));
    assert!(pipe.has_unread());
    assert!(!pipe.takes());
    assert_eq!(pipe.write(b"x", (1, 1), &mut 1, &mut Troubles::default()), Some(0));
    assert_eq!(pipe.hear(), []);
    assert!(pipe.set_reading(true), "the server can write again");
    assert!(!pipe.set_reading(true), "it could before");
    assert!(!pipe.has_unread());
    assert_eq!(pipe.hear().len(), 1);
}

#[test]
fn a_server_that_is_gone_receives_nothing() {
    let mut pipe = pipe(Manners::PLAIN);
    pipe.send(b"a");
    pipe.cut_off();
    assert!(pipe.is_closed() && !pipe.is_known() && !pipe.has_under_way());
    pipe.send(b"b");
    assert!(!pipe.deliver(true, &mut 1, &mut Troubles::default()));
}

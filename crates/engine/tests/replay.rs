//! What is read back from a log may be anything: it is refused, never a panic, and never believed.

use jobyard_engine::{By, Command, Damaged, Engine, History, Limits, NewJob, Now, QueueName, Role};
use proptest::prelude::*;

const NOW: Now = Now { engine_ms: 0, wall_ms: 0, random: 0 };

proptest! {
    #[test]
    fn bytes_that_are_no_records_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut engine = Engine::new(Limits::default(), 1, 0);
        if engine.replay(&bytes, History::Whole).is_ok() {
            engine.check();
        }
    }
}

#[test]
fn a_record_about_a_job_that_is_not_there_is_damage() {
    let mut writer = Engine::new(Limits::default(), 1, 0);
    let job = NewJob::plain(QueueName::new(b"q"), b"x"[..].into());
    writer.handle(NOW, jobyard_engine::ClientId(1), Command::Enqueue(Box::new(job)), &mut |_, _| {});
    let put = writer.records().to_vec();
    writer.clear_records();
    let remove = Command::Remove { job: jobyard_engine::JobRef::Number(1), by: By::Anyone };
    writer.handle(NOW, jobyard_engine::ClientId(1), remove, &mut |_, _| {});
    let removed = writer.records().to_vec();

    let mut reader = Engine::new(Limits::default(), 2, 0);
    assert_eq!(reader.replay(&removed, History::Whole), Err(Damaged));
    assert_eq!(reader.replay(&put, History::Whole), Ok(()));
    assert_eq!(reader.replay(&put, History::Whole), Err(Damaged), "a number is given once");
    assert_eq!(reader.replay(&removed, History::Whole), Ok(()));
    assert!(reader.snapshot().jobs.is_empty());
}

#[test]
fn counters_that_come_after_something_else_do_not_say_that_the_log_begins_there() {
    let mut writer = Engine::new(Limits::default(), 1, 0);
    let ask = |writer: &mut Engine, command| {
        writer.clear_records();
        writer.handle(NOW, jobyard_engine::ClientId(1), command, &mut |_, _| {});
        writer.records().to_vec()
    };
    let queue = QueueName::new(b"q");
    let create = Command::Attend { queue: queue.clone(), role: Role::Putter, keeps_queue: true };
    let created = ask(&mut writer, create);
    let put = ask(&mut writer, Command::Enqueue(Box::new(NewJob::plain(queue, b"x"[..].into()))));
    let removed = ask(&mut writer, Command::Remove { job: jobyard_engine::JobRef::Number(1), by: By::Anyone });
    // Of an engine that has given a queue its age, and no job its number.
    let mut counting = Engine::new(Limits::default(), 1, 0);
    counting.begin_stretch();
    counting.replay(&created, History::Whole).unwrap();
    counting.begin_keep_all();
    let counters = counting.records().to_vec();

    let reads = |records: &[&[u8]]| {
        let mut reader = Engine::new(Limits::default(), 2, 0);
        reader.replay(&records.concat(), History::Whole)
    };
    assert_eq!(reads(&[&counters, &removed]), Ok(()), "jobs came before");
    assert_eq!(reads(&[&created, &counters, &removed]), Err(Damaged), "there was no such job");
    assert_eq!(reads(&[&created, &counters, &put, &removed]), Ok(()));
}

#[test]
fn what_was_read_before_the_damage_is_in_the_stretch_where_it_was_read() {
    let mut writer = Engine::new(Limits::default(), 1, 0);
    let job = NewJob::plain(QueueName::new(b"q"), b"x"[..].into());
    writer.handle(NOW, jobyard_engine::ClientId(1), Command::Enqueue(Box::new(job)), &mut |_, _| {});
    let put = writer.records();

    let mut reader = Engine::new(Limits::default(), 2, 0);
    reader.begin_stretch();
    // Its queue is there twice, and then comes what is no record.
    assert_eq!(reader.replay(&[put, put, &[0xff]].concat(), History::Damaged), Err(Damaged));
    reader.begin_stretch();
    reader.check();
    assert_eq!(reader.snapshot().jobs.len(), 1);
}

//! Steps of a random run. They name jobs, clients and times by where these will stand when the step comes, so
//! that a run still makes sense when steps before it are left out.

use jobyard_engine::{
    Again, AttemptRule, Backoff, By, Choice, DateRank, FailureRule, Hold, LeaseRequest, NewJob, OwnTime, Parting,
    QueueName, QueueOrder, Role, Start, UsedUp, Wait, Which,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// One more name than there may be queues.
/// The last name is longer than it may be.
pub const QUEUES: [&[u8]; 6] = [b"amber", b"birch", b"cedar", b"", b"elm\xff", b"fig tree"];
pub const CLIENTS: usize = 5;

#[derive(Clone, Debug)]
pub enum Step {
    /// A command of the client in this seat, or of the next one that does not wait.
    Ask { seat: usize, random: u64, ask: Ask },
    /// The client in this seat waits no longer.
    StopWaiting { seat: usize },
    /// The client in this seat leaves; a new one takes the seat.
    Disconnect { seat: usize },
    /// The lease given so many leases ago did not reach its client.
    UndoLease { ago: usize },
    /// Time passes, and the engine is not told before the next step.
    Pass(Jump),
    /// Time passes, and the engine does what fell due, up to a while ago.
    Tick { jump: Jump, late_ms: u64, random: u64 },
    /// A crash, a while, and a start from the records.
    Restart(Jump),
    /// The log begins a new stretch; the engine is told at once, or after the next step's records went there.
    BeginStretch { late: bool },
    /// About so many bytes of what is needed of the oldest stretch are written anew.
    Compact { bytes: usize },
    /// The log lets go of the oldest stretch, if nothing of it is needed.
    DropStretch,
}

#[derive(Clone, Copy, Debug)]
pub enum Jump {
    Millis(u64),
    /// To the next deadline of engine time, or so far beside it.
    Deadline(i64),
    /// To the next date, or so far beside it.
    Date(i64),
    /// Only the wall clock moves.
    WallSteps(i64),
}

#[derive(Clone, Debug)]
pub enum Ask {
    Enqueue(Draft),
    Run { draft: Draft, wait_ms: u64 },
    Lease(LeaseRequest),
    LeaseJob { target: Target, hold: Hold },
    Complete { target: Target, by: By, result: u8 },
    Fail { target: Target, by: By, result: u8 },
    Release { target: Target, again: Option<Again> },
    Bury { target: Target, urgency: i128 },
    Revive { queue: usize, count_max: usize },
    ReviveJob(Target),
    Extend(Target),
    Pause { queue: usize, pause_ms: u64 },
    Attend { queue: QueueName, role: Role, keeps_queue: bool },
    Leave(QueueName),
    Remove { target: Target, by: By },
    Await { target: Target, wait_ms: u64 },
    ClaimOrigins(Option<u8>),
    CloseOrigin(u8),
    Group(Vec<GroupStep>),
    Look(LookAt),
}

#[derive(Clone, Debug)]
pub enum GroupStep {
    Enqueue(Draft),
    Complete(Target),
    Invalid,
}

/// Questions without the function pointer that a real one holds.
#[derive(Clone, Debug)]
pub enum LookAt {
    Job(Target),
    Jobs { queue: usize, which: Which, offset: usize, count_max: usize },
    Queue(usize),
    Queues { order: QueueOrder, all: bool, offset: usize, count_max: usize },
    Server,
    Sum,
    Origins { after: u8, count_max: usize },
}

/// A job to be put. The date in `rules` is counted from the wall clock's time.
#[derive(Clone, Debug)]
pub struct Draft {
    pub rules: Box<NewJob>,
    pub uuid: Option<DraftUuid>,
    pub blockers: Vec<DraftBlocker>,
}

#[derive(Clone, Copy, Debug)]
pub enum DraftUuid {
    /// One of a few.
    Own(u8),
    /// Of the shape of one that the engine makes.
    OfJob(Pick),
}

#[derive(Clone, Copy, Debug)]
pub enum DraftBlocker {
    Job(Pick),
    Previous(usize),
}

/// Which job is meant, and how it is named.
#[derive(Clone, Debug)]
pub struct Target {
    pub pick: Pick,
    pub form: Form,
}

/// Which job is meant.
#[derive(Clone, Copy, Debug)]
pub enum Pick {
    /// One that the asker holds.
    Held(usize),
    /// One that is leased or held.
    Leased(usize),
    /// One that rests.
    Resting(usize),
    /// One that is run for someone.
    Run(usize),
    /// One that is buried.
    Buried(usize),
    /// Any that lives.
    Living(usize),
    /// One of the last numbers, living or not.
    Recent(u64),
    /// The next number, or a later one.
    Future(u64),
}

#[derive(Clone, Copy, Debug)]
pub enum Form {
    Number,
    Uuid,
    InItsQueue,
    InQueue(usize),
}

pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    vec(step(), 1..1_000)
}

fn step() -> impl Strategy<Value = Step> {
    let seat = || 0..CLIENTS;
    prop_oneof![
        600 => (seat(), any_random(), ask()).prop_map(|(seat, random, ask)| Step::Ask { seat, random, ask }),
        40 => seat().prop_map(|seat| Step::StopWaiting { seat }),
        35 => seat().prop_map(|seat| Step::Disconnect { seat }),
        25 => (0..4_usize).prop_map(|ago| Step::UndoLease { ago }),
        60 => jump().prop_map(Step::Pass),
        160 => (jump(), late_ms(), any_random()).prop_map(|(jump, late_ms, random)| Step::Tick { jump, late_ms, random }),
        15 => prop_oneof![2 => jump().boxed(), 1 => (200..2_000_u64).prop_map(Jump::Millis).boxed()].prop_map(Step::Restart),
        15 => any::<bool>().prop_map(|late| Step::BeginStretch { late }),
        40 => prop_oneof![0..100_usize, Just(usize::MAX)].prop_map(|bytes| Step::Compact { bytes }),
        15 => Just(Step::DropStretch),
    ]
}

fn any_random() -> impl Strategy<Value = u64> {
    prop_oneof![0..6_u64, Just(u64::MAX)]
}

fn late_ms() -> impl Strategy<Value = u64> {
    prop_oneof![4 => Just(0_u64), 1 => 1..40_u64]
}

fn jump() -> impl Strategy<Value = Jump> {
    prop_oneof![
        2 => Just(Jump::Millis(0)),
        2 => Just(Jump::Millis(1)),
        3 => (2..40_u64).prop_map(Jump::Millis),
        6 => Just(Jump::Deadline(0)),
        3 => prop_oneof![Just(-1_i64), Just(1_i64)].prop_map(Jump::Deadline),
        3 => (-1..=1_i64).prop_map(Jump::Date),
        2 => (-300..300_i64).prop_map(Jump::WallSteps),
        1 => (1_000..100_000_u64).prop_map(Jump::Millis),
    ]
}

fn ask() -> impl Strategy<Value = Ask> {
    let by = || prop_oneof![2 => Just(By::Anyone), 2 => Just(By::Holder), 1 => Just(By::HolderOrNobody)];
    prop_oneof![
        20 => draft().prop_map(Ask::Enqueue),
        10 => (draft(), wait_ms()).prop_map(|(draft, wait_ms)| Ask::Run { draft, wait_ms }),
        26 => lease_request().prop_map(Ask::Lease),
        8 => (target(), by(), 0..3_u8).prop_map(|(target, by, result)| Ask::Complete { target, by, result }),
        12 => (target(), by(), 0..3_u8).prop_map(|(target, by, result)| Ask::Fail { target, by, result }),
        6 => (prop_oneof![held().boxed(), target().boxed()], option::weighted(0.5, again()))
            .prop_map(|(target, again)| Ask::Release { target, again }),
        12 => (prop_oneof![3 => held().boxed(), 1 => target().boxed()], urgency())
            .prop_map(|(target, urgency)| Ask::Bury { target, urgency }),
        12 => (0..QUEUES.len(), 0..5_usize).prop_map(|(queue, count_max)| Ask::Revive { queue, count_max }),
        3 => target().prop_map(Ask::ReviveJob),
        3 => buried().prop_map(Ask::ReviveJob),
        3 => prop_oneof![3 => held().boxed(), 1 => target().boxed()].prop_map(Ask::Extend),
        14 => (queue(), prop_oneof![Just(Role::Putter), Just(Role::Taker), Just(Role::Both)], prop_oneof![9 => Just(false), 1 => Just(true)])
            .prop_map(|(queue, role, keeps_queue)| Ask::Attend { queue, role, keeps_queue }),
        3 => queue().prop_map(Ask::Leave),
        3 => (0..QUEUES.len(), wait_ms()).prop_map(|(queue, pause_ms)| Ask::Pause { queue, pause_ms }),
        4 => (target(), prop_oneof![3 => Just(By::Anyone).boxed(), 1 => by().boxed()])
            .prop_map(|(target, by)| Ask::Remove { target, by }),
        14 => (prop_oneof![target().boxed(), buried().boxed()], hold()).prop_map(|(target, hold)| Ask::LeaseJob { target, hold }),
        6 => option::weighted(0.3, origin()).prop_map(Ask::ClaimOrigins),
        4 => origin().prop_map(Ask::CloseOrigin),
        6 => (target(), wait_ms()).prop_map(|(target, wait_ms)| Ask::Await { target, wait_ms }),
        8 => vec(group_step(), 0..=5).prop_map(Ask::Group),
        5 => vec(held().prop_map(GroupStep::Complete), 1..=2).prop_map(Ask::Group),
        8 => look().prop_map(Ask::Look),
    ]
}

/// One of a few.
fn origin() -> impl Strategy<Value = u8> {
    0..4_u8
}

fn wait_ms() -> impl Strategy<Value = u64> {
    prop_oneof![2 => Just(0), 2 => Just(1), 6 => 2..120_u64, 1 => Just(u64::MAX)]
}

fn draft() -> impl Strategy<Value = Draft> {
    let uuid = prop_oneof![4 => (0..4_u8).prop_map(DraftUuid::Own), 1 => pick().prop_map(DraftUuid::OfJob)];
    let blocker = prop_oneof![
        5 => pick().prop_map(DraftBlocker::Job),
        2 => (0..4_usize).prop_map(DraftBlocker::Previous),
    ];
    let blockers = prop_oneof![3 => Just(Vec::new()), 2 => vec(blocker, 1..=3)];
    let rules = prop_oneof![3 => rules().boxed(), 2 => patient_rules().boxed()];
    (rules, option::weighted(0.3, uuid), blockers).prop_map(|(rules, uuid, blockers)| Draft {
        rules: Box::new(rules),
        uuid,
        blockers,
    })
}

fn urgency() -> impl Strategy<Value = i128> {
    prop_oneof![6 => Just(0_i128), 1 => Just(1), 1 => Just(-1), 1 => Just(i128::MAX), 1 => Just(i128::MIN)]
}

fn again() -> impl Strategy<Value = Again> {
    (urgency(), delay_ms()).prop_map(|(urgency, delay_ms)| Again { urgency, delay_ms })
}

fn delay_ms() -> impl Strategy<Value = u64> {
    prop_oneof![3 => Just(0_u64), 8 => 1..100_u64, 1 => Just(u64::MAX)]
}

fn rules() -> impl Strategy<Value = NewJob> {
    let body = prop_oneof![4 => Just(&b"plain"[..]), 1 => Just(&b"two\nlines"[..]), 1 => Just(&b""[..])];
    let own_time = prop_oneof![
        4 => Just(OwnTime::None),
        2 => Just(OwnTime::Unlimited),
        4 => (1..60_u64).prop_map(OwnTime::Millis),
        1 => prop_oneof![Just(0_u64), Just(u64::MAX)].prop_map(OwnTime::Millis),
    ];
    let lifetime_ms = prop_oneof![8 => 1..400_u64, 1 => Just(0_u64), 1 => Just(u64::MAX)];
    let attempts = option::weighted(0.8, 1..=2_u32).prop_map(|max| AttemptRule { max });
    (
        queue(),
        body,
        urgency(),
        option::weighted(0.1, Just("named")),
        own_time,
        start(),
        option::weighted(0.5, lifetime_ms),
        option::weighted(0.5, attempts),
        option::weighted(0.7, failure_rule()),
        (prop_oneof![1 => Just(true), 2 => Just(false)], option::weighted(0.2, origin())),
    )
        .prop_map(|(queue, body, urgency, name, own_time, start, lifetime_ms, attempts, failures, rest)| {
            let (keeps_queue, origin) = rest;
            NewJob {
                urgency,
                name: name.map(Into::into),
                own_time,
                start,
                lifetime_ms,
                attempts,
                failures,
                keeps_queue,
                origin: origin.map(|which| [which].into()),
                ..NewJob::plain(queue, body.into())
            }
        })
}

/// Of a job that lives long enough to rest and to be kept when it has failed.
fn patient_rules() -> impl Strategy<Value = NewJob> {
    let lifetime_ms = prop_oneof![200..2_000_u64, 2_000..20_000_u64];
    (rules(), lifetime_ms, failure_rule(), 0..2_u64).prop_map(|(rules, lifetime_ms, failures, allowed)| NewJob {
        lifetime_ms: Some(lifetime_ms),
        failures: Some(FailureRule { allowed: Some(allowed), ..failures }),
        ..rules
    })
}

fn start() -> impl Strategy<Value = Start> {
    let rank = prop_oneof![Just(DateRank::Ahead), Just(DateRank::Behind)];
    let wall_ms = prop_oneof![1 => Just(0_i64), 1 => Just(1), 4 => -300..0_i64, 8 => 0..300_i64, 1 => 1_000..9_000_i64];
    prop_oneof![
        6 => Just(Start::Now),
        1 => delay_ms().prop_map(Start::After),
        1 => Just(Start::Buried),
        2 => (wall_ms, rank).prop_map(|(wall_ms, rank)| Start::At { wall_ms, rank }),
    ]
}

fn failure_rule() -> impl Strategy<Value = FailureRule> {
    let used_up =
        prop_oneof![1 => Just(UsedUp::Remove), 3 => Just(UsedUp::Keep), 2 => queue().prop_map(UsedUp::MoveTo)];
    let backoff = prop_oneof![Just(Backoff::None), Just(Backoff::Quartic)];
    (option::weighted(0.8, 0..3_u64), backoff, used_up, any::<bool>()).prop_map(
        |(allowed, backoff, used_up, parting_counts)| FailureRule { allowed, backoff, used_up, parting_counts },
    )
}

fn hold() -> impl Strategy<Value = Hold> {
    let parting = || prop_oneof![Just(Parting::Release), Just(Parting::Fail)];
    prop_oneof![
        5 => parting().prop_map(Hold::Connection),
        2 => parting().prop_map(Hold::ConnectionTimed),
        3 => any::<bool>().prop_map(|honours_unlimited| Hold::Timed { honours_unlimited }),
        2 => prop_oneof![8 => 1..60_u64, 1 => Just(0_u64), 1 => Just(u64::MAX)].prop_map(Hold::For),
        1 => Just(Hold::Endless),
    ]
}

fn lease_request() -> impl Strategy<Value = LeaseRequest> {
    let choice = prop_oneof![Just(Choice::Best), Just(Choice::InOrder), Just(Choice::Random)];
    let wait = prop_oneof![3 => Just(Wait::No), 4 => wait_ms().prop_map(Wait::Millis), 1 => Just(Wait::Forever)];
    let queues = prop_oneof![20 => vec(queue(), 1..=4), 1 => vec(queue(), 0..=6)];
    let heeds_ms = option::weighted(0.4, prop_oneof![0..60_u64, Just(u64::MAX)]);
    (queues, choice, hold(), wait, any::<bool>(), option::weighted(0.15, Just(b'\n')), heeds_ms).prop_map(
        |(queues, choice, hold, wait, creates_queues, body_without, heeds_ms)| LeaseRequest {
            queues,
            choice,
            hold,
            wait,
            creates_queues,
            body_without,
            heeds_ms,
        },
    )
}

fn group_step() -> impl Strategy<Value = GroupStep> {
    prop_oneof![
        12 => draft().prop_map(GroupStep::Enqueue),
        5 => held().prop_map(GroupStep::Complete),
        2 => target().prop_map(GroupStep::Complete),
        1 => Just(GroupStep::Invalid),
    ]
}

fn look() -> impl Strategy<Value = LookAt> {
    let which = prop_oneof![Just(Which::Ready), Just(Which::Delayed), Just(Which::Due), Just(Which::Buried)];
    let order = prop_oneof![Just(QueueOrder::Created), Just(QueueOrder::Name)];
    let offset = || prop_oneof![3 => Just(0_usize), 1 => 1..4_usize];
    let count_max = || prop_oneof![1 => 0..3_usize, 3 => Just(100_usize)];
    prop_oneof![
        target().prop_map(LookAt::Job),
        (0..QUEUES.len(), which, offset(), count_max()).prop_map(|(queue, which, offset, count_max)| LookAt::Jobs {
            queue,
            which,
            offset,
            count_max
        }),
        (0..QUEUES.len()).prop_map(LookAt::Queue),
        (order, any::<bool>(), offset(), count_max()).prop_map(|(order, all, offset, count_max)| LookAt::Queues {
            order,
            all,
            offset,
            count_max
        }),
        Just(LookAt::Server),
        Just(LookAt::Sum),
        (origin(), count_max()).prop_map(|(after, count_max)| LookAt::Origins { after, count_max }),
    ]
}

/// One that the asker holds.
fn held() -> impl Strategy<Value = Target> {
    (0..3_usize, form()).prop_map(|(index, form)| Target { pick: Pick::Held(index), form })
}

/// One that is buried.
fn buried() -> impl Strategy<Value = Target> {
    (0..8_usize, form()).prop_map(|(index, form)| Target { pick: Pick::Buried(index), form })
}

fn target() -> impl Strategy<Value = Target> {
    (pick(), form()).prop_map(|(pick, form)| Target { pick, form })
}

fn pick() -> impl Strategy<Value = Pick> {
    prop_oneof![
        4 => (0..3_usize).prop_map(Pick::Held),
        4 => (0..8_usize).prop_map(Pick::Leased),
        3 => (0..8_usize).prop_map(Pick::Resting),
        2 => (0..3_usize).prop_map(Pick::Run),
        3 => (0..8_usize).prop_map(Pick::Buried),
        6 => (0..40_usize).prop_map(Pick::Living),
        2 => (1..30_u64).prop_map(Pick::Recent),
        1 => (0..2_u64).prop_map(Pick::Future),
    ]
}

fn form() -> impl Strategy<Value = Form> {
    prop_oneof![
        6 => Just(Form::Number),
        3 => Just(Form::Uuid),
        2 => Just(Form::InItsQueue),
        1 => (0..QUEUES.len()).prop_map(Form::InQueue),
    ]
}

fn queue() -> impl Strategy<Value = QueueName> {
    prop_oneof![6 => Just(0), 4 => Just(1), 3 => Just(2), 2 => Just(3), 1 => Just(4), 1 => Just(5)]
        .prop_map(|index: usize| QueueName::new(QUEUES[index]))
}

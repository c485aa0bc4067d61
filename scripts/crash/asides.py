"""The ledger's part for what beanstalkd's clients put aside and let back in: jobs that they bury, put or release for later,
kick, and take by their number; and tubes that they pause. What was answered must be so after a start."""

import time
from collections import Counter, defaultdict

# What a job must be, by what was answered last. One that is ready may be given to somebody.
BURIED, LATER, READY = "buried", "later", "ready"
# So long, in seconds, is nothing put off but by a client that asks for it.
LONG_SECONDS = 3_000
# A delay may begin with the turn in which its request is read, and that may have begun before the request was sent.
SLACK_SECONDS = 0.5


class Aside:
    """What was answered last: to which command, and what the job is since."""

    def __init__(self, by, state, priority=None, delay=0):
        self.by, self.state, self.priority, self.delay = by, state, priority, delay


class Asides:
    """Jobs that somebody has put aside or let back in, and tubes that somebody has paused."""

    def __init__(self, ledger):
        self.ledger = ledger
        # By their keys, all that were ever asked about and have not ended.
        self.jobs = {}
        # Those of a queue that are surely so, by their keys; buried ones in the order in which they were buried.
        self.sure = {BURIED: defaultdict(dict), LATER: defaultdict(dict)}
        # The keys of those of a queue about which something was asked and not answered.
        self.unsure = defaultdict(set)
        self.burials = 0
        # How many jobs were put for later and not answered, by queue: they may be there, and nobody knows their numbers.
        self.unheard = Counter()
        # Tubes that are paused, as long as the server lives, and have a job that is ready.
        self.paused = set()

    # --- what clients ask for and hear

    def pick(self, state, queue, draw):
        """A job that is surely so, if there is one. Nobody else picks it."""
        with self.ledger.lock:
            jobs = self.sure[state][queue]
            return jobs.pop(draw.choice(list(jobs))) if jobs else None

    def all(self, state, queue):
        """Those of a queue that only one client uses; nothing if it is not known of all of its jobs."""
        with self.ledger.lock:
            return None if self.unsure[queue] else list(self.sure[state][queue].values())

    def asking(self, job, burying=False):
        """A job is about to be put aside, or let back in: until that is answered it may be anything. Returns what the answer
        belongs to."""
        with self.ledger.lock:
            self.forget(job)
            self.jobs[job.key] = job
            self.unsure[job.queue].add(job.key)
            job.leased_until, job.held_by, job.not_before = None, None, None
            if burying:
                self.burials += 1
                job.burial = self.burials
            return job.changes

    def answered(self, job, changes, aside, asked=None):
        """It was done. Somebody else may have done more to the job since."""
        with self.ledger.lock:
            self.ledger.counts["answered", aside.by] += 1
            if job.changes != changes:
                return
            if aside.state == LATER:
                job.not_before = asked + aside.delay - SLACK_SECONDS
            self.is_sure(job, aside)

    def unchanged(self, job, changes, aside, not_before):
        """It was refused, and so all is as it was before."""
        with self.ledger.lock:
            if job.changes == changes:
                job.not_before = not_before
                self.is_sure(job, aside)

    def settled(self, job):
        """It is not put aside, whatever else it is."""
        with self.ledger.lock:
            self.unsure[job.queue].discard(job.key)

    def is_sure(self, job, aside):
        job.aside = aside
        self.unsure[job.queue].discard(job.key)
        if aside.state in self.sure:
            jobs = self.sure[aside.state][job.queue]
            jobs[job.key] = job
            if aside.state == BURIED:
                self.sure[BURIED][job.queue] = dict(sorted(jobs.items(), key=lambda item: item[1].burial))

    def taken(self, job):
        """Somebody was given a job. The ledger is locked."""
        if job.aside is not None and job.aside.state == BURIED:
            self.ledger.say_wrong("asides lost", f"{job.key} is buried, and was given to a worker")
        self.forget(job)

    def forget(self, job):
        job.changes += 1
        job.aside = None
        self.unsure[job.queue].discard(job.key)
        for jobs in self.sure.values():
            jobs[job.queue].pop(job.key, None)

    # --- what there is after a start

    def look(self, client):
        """Compares it with what the server has, when all ends are known and nobody else is there. `client` speaks
        beanstalkd."""
        self.jobs = {key: job for key, job in self.jobs.items() if job.is_there()}
        jobs = [job for job in self.jobs.values() if job.number is not None]
        shown = client.about_jobs([job.number for job in jobs])
        for job, about in zip(jobs, shown):
            # If it is missing, the ledger has said so.
            if about is not None:
                self.check(job, about)
        self.unsure.clear()
        self.check_first_buried(client)
        self.check_pauses(client)

    def check(self, job, about):
        now = time.time()
        if job.key in self.unsure[job.queue]:
            self.find_out(job, about, now)
        elif (aside := job.aside) is None:
            if about["state"] == "buried":
                self.wrong(job, "was given to a worker, and is buried")
        else:
            if aside.priority is not None and int(about["pri"]) != aside.priority:
                self.wrong(job, f"has the priority {about['pri']} and not {aside.priority}")
            if why := differs(aside, about, job.not_before is not None and now < job.not_before):
                self.wrong(job, why)
            self.ledger.counts["kept", aside.by] += 1

    def wrong(self, job, why):
        by = f" after {job.aside.by}" if job.aside is not None else ""
        self.ledger.say_wrong("asides lost", f"{job.key}, id {job.number},{by} {why}")

    def find_out(self, job, about, now):
        """What became of something that was not answered."""
        if about["state"] == "buried":
            self.is_sure(job, Aside("bury", BURIED, int(about["pri"])))
        elif about["state"] == "delayed" and int(about["delay"]) > 0:
            job.not_before = now + int(about["time-left"]) - SLACK_SECONDS
            self.is_sure(job, Aside("release for later", LATER, int(about["pri"]), int(about["delay"])))
        else:
            self.unsure[job.queue].discard(job.key)

    def check_first_buried(self, client):
        """In tubes of one client it is known which job was buried first."""
        for queue, jobs in self.sure[BURIED].items():
            if jobs and is_own(queue):
                number, first = client.first_buried(queue), next(iter(jobs.values()))
                self.ledger.counts["first buried"] += 1
                if number != first.number:
                    self.wrong(first, f"is not the first that is buried: that is {number}")

    def check_pauses(self, client):
        """No tube is paused. What is taken here is back when this client goes."""
        for queue in self.paused:
            about = client.about_tube(queue)
            if about is None or about["current-jobs-ready"] == "0":
                continue
            taken = client.take(queue)
            self.ledger.counts["pauses over"] += 1
            if taken is None or (about["pause"], about["pause-time-left"]) != ("0", "0"):
                self.ledger.say_wrong("asides lost", f"after a start {queue} is paused: {about}")
            if taken is not None:
                self.ledger.taken(taken, "beanstalkd", durable=False)
        self.paused = set()


def differs(aside, about, is_early):
    """What is wrong with the state of a job about which this was answered; nothing if it is right."""
    state = about["state"]
    if (state == "buried") != (aside.state == BURIED):
        return f"is {state}"
    if aside.state == LATER and is_early and (state, int(about["delay"])) != ("delayed", aside.delay):
        return f"is {state}, with a delay of {about['delay']} s and not {aside.delay} s"
    # One whose taker vanished may rest for some seconds.
    if aside.state == READY and state == "delayed" and int(about["time-left"]) > LONG_SECONDS / 2:
        return f"is delayed for {about['time-left']} s"
    return None


def own(index):
    """The tube that only the beanstalkd client of this number uses."""
    return f"own-{index}"


def is_own(queue):
    return queue.startswith("own-")

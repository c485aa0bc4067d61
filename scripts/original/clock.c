/* Preloaded into beanstalkd, so that its time stands still and goes on only when the player of transcripts says so.
 *
 * The player holds the other end of standard input. It writes numbers of 64 bits: first the moment at which the server
 * starts and the most that may be allocated at once; then, as often as it likes, the moment up to which time shall go
 * on. Each such moment is answered with one byte once it is reached and the server has nothing left to do. When the
 * player is gone, however it ended, the server ends. Moments are microseconds since 1970. */

#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/time.h>
#include <unistd.h>

enum { PLAYER = STDIN_FILENO, SECOND = 1000000, MILLISECOND = 1000 };

static int64_t now;
static int64_t goal;
static bool asked;
static uint64_t allocation_bytes_max = UINT64_MAX;

static int64_t read_number(void) {
    int64_t number;
    if (read(PLAYER, &number, sizeof number) != sizeof number) {
        _exit(1);
    }
    return number;
}

__attribute__((constructor)) static void begin(void) {
    now = goal = read_number();
    allocation_bytes_max = (uint64_t)read_number();
}

/* The server's only clock. */
int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    (void)zone;
    time->tv_sec = now / SECOND;
    time->tv_usec = now % SECOND;
    return 0;
}

/* When a sleep of so many milliseconds ends. The server rounds them down, so another one is added: a sleep must not end
 * in the very microsecond for which it was meant, because a job whose time runs out then stays with its holder for ever
 * (issues 262 and 380 of beanstalkd). The 7 keep it from the very microsecond of something else, too: with each sleep
 * the server drifts away from the moments of the transcript, which lie whole milliseconds apart. */
static int64_t wakes_at(int milliseconds) {
    return milliseconds < 0 ? INT64_MAX : now + ((int64_t)milliseconds + 1) * MILLISECOND + 7;
}

/* Where the server sleeps, and so the place where it has nothing left to do. Time that shall pass passes here, from one
 * moment at which something falls due to the next. What clients did comes first. */
int epoll_wait(int clients, struct epoll_event *events, int events_max, int timeout) {
    int64_t wakes = wakes_at(timeout);
    for (;;) {
        int ready = epoll_pwait(clients, events, events_max, 0, NULL);
        if (ready != 0) {
            return ready;
        }
        if (now < goal) {
            now = wakes < goal ? wakes : goal;
            return 0;
        }
        if (asked) {
            asked = false;
            if (write(PLAYER, "", 1) != 1) {
                _exit(1);
            }
        }
        struct pollfd sources[] = {{.fd = clients, .events = POLLIN}, {.fd = PLAYER, .events = POLLIN}};
        poll(sources, 2, -1);
        if (sources[1].revents != 0) {
            goal = read_number();
            asked = true;
        }
    }
}

/* A machine without memory: what is larger than agreed is refused. */
void *malloc(size_t size) {
    extern void *__libc_malloc(size_t);
    if (size > allocation_bytes_max) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_malloc(size);
}

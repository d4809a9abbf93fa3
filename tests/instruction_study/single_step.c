/* single_step TID: executes a thread instruction by instruction until SIGTERM.
 *
 * Prints "ready" once the thread is stopped and goes on in steps, and at the end a line for each
 * address that was executed: the address and the count in hexadecimal and decimal, and whether a
 * system call begins there. The string instructions of x86-64 count once for each repetition.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

#define PLACES (1u << 20)

static struct {
    unsigned long address, count;
    int is_call;
} places[PLACES];

static volatile sig_atomic_t is_over;

static void end(int signal) {
    (void)signal;
    is_over = 1;
}

static void count(unsigned long address) {
    unsigned long at = (address * 0x9e3779b97f4a7c15ul) >> 44;
    while (places[at].count && places[at].address != address) {
        at = (at + 1) % PLACES;
    }
    places[at].address = address;
    places[at].count++;
}

static int fail(const char *call) {
    perror(call);
    return 1;
}

int main(int argc, char **argv) {
    int tid = argc == 2 ? atoi(argv[1]) : 0, status, passed_on = 0;
    struct sigaction action = {.sa_handler = end};
    sigaction(SIGTERM, &action, NULL);
    if (ptrace(PTRACE_SEIZE, tid, 0, 0) || ptrace(PTRACE_INTERRUPT, tid, 0, 0)) {
        return fail("ptrace");
    }
    if (waitpid(tid, &status, __WALL) < 0) {
        return fail("waitpid");
    }
    puts("ready");
    fflush(stdout);
    /* A thread that is in a system call is only stopped at the instruction behind it: the client
     * sends one request more after SIGTERM. */
    while (!is_over) {
        if (ptrace(PTRACE_SINGLESTEP, tid, 0, passed_on)) {
            return fail("PTRACE_SINGLESTEP");
        }
        pid_t found;
        while ((found = waitpid(tid, &status, __WALL)) < 0 && errno == EINTR) {
        }
        if (found < 0 || !WIFSTOPPED(status)) {
            fprintf(stderr, "the thread has ended\n");
            return 1;
        }
        passed_on = 0;
        if (WSTOPSIG(status) != SIGTRAP) {
            passed_on = status >> 16 ? 0 : WSTOPSIG(status);
            continue;
        }
        count((unsigned long)ptrace(PTRACE_PEEKUSER, tid, offsetof(struct user_regs_struct, rip), 0));
    }
    for (unsigned at = 0; at < PLACES; at++) {
        errno = 0;
        if (places[at].count) {
            long code = ptrace(PTRACE_PEEKTEXT, tid, places[at].address, 0);
            places[at].is_call = !errno && (code & 0xffff) == 0x050f;
        }
    }
    /* Before anything is printed: who reads it may wait for the thread first. */
    ptrace(PTRACE_DETACH, tid, 0, 0);
    for (unsigned at = 0; at < PLACES; at++) {
        if (places[at].count) {
            printf("%lx %lu %d\n", places[at].address, places[at].count, places[at].is_call);
        }
    }
    return 0;
}

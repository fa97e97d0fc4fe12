/* Broken rules: a scenario that a `tt_assert` must end. It runs in a child process, so the test
 * goes on, and the message of the failed assertion can be compared. All functions are inline; there
 * is no .c file. Not for programs that have started threads. */
#ifndef TT_TESTS_BREACH_H
#define TT_TESTS_BREACH_H

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Runs the scenario in a child. Returns its wait status; `said` gets what it wrote to stderr. */
static inline int in_a_child(void (*scenario)(void), char *said, size_t capacity) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0});
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        scenario();
        _exit(0);
    }
    close(ends[1]);
    size_t length = 0;
    ssize_t got;
    while (length + 1 < capacity && (got = read(ends[0], said + length, capacity - length - 1)) > 0)
        length += (size_t)got;
    said[length] = '\0';
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

/* Fails unless the scenario ends without a failed assertion. */
static inline void assert_holds(void (*scenario)(void)) {
    char said[4096];
    int status = in_a_child(scenario, said, sizeof(said));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("the harness itself fails: %s", said);
}

/* Fails unless an assertion with this text in its condition ends the scenario. */
static inline void assert_breaks(void (*scenario)(void), const char *name, const char *condition) {
    char said[4096];
    int status = in_a_child(scenario, said, sizeof(said));
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT)
        fail_msg("%s: status %x, not SIGABRT: %s", name, (unsigned)status, said);
    if (!strstr(said, condition))
        fail_msg("%s: wanted '%s', got: %s", name, condition, said);
}

struct breach {
    const char *name;
    void (*scenario)(void);
    const char *condition;
};
#define BREACH(scenario, condition)                                                                \
    { #scenario, scenario, condition }

static inline void assert_all_break(const struct breach *breaches, size_t count) {
    for (size_t i = 0; i < count; i++)
        assert_breaks(breaches[i].scenario, breaches[i].name, breaches[i].condition);
}

#endif

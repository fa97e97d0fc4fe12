/* Jobs in child processes: every result comes back, and a child that dies loses only its job. */
#include "lab/sweep/jobs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { COUNT = 40, WORKERS = 3, LONG_BYTES = 300000 };

struct runs {
    int32_t dies, long_one, last; /* jobs; -1: none */
    volatile sig_atomic_t stop;
    int32_t started, finished, started_at_stop;
    long pids[COUNT]; /* of the processes that did them; 0: no result */
    size_t lengths[COUNT];
};

static void starts(void *context, int32_t index) {
    struct runs *self = context;
    assert_int_equal(index, self->started);
    self->started++;
}

static void work(void *context, int32_t index, struct tt_text *result) {
    const struct runs *self = context;
    if (index == self->dies)
        abort();
    tt_text_printf(result, "%ld", (long)getpid());
    for (int32_t i = 0; index == self->long_one && i < LONG_BYTES; i++)
        tt_text_puts(result, " ");
}

static void done(void *context, int32_t index, const char *result) {
    struct runs *self = context;
    self->finished++;
    self->pids[index] = strtol(result, NULL, 10);
    self->lengths[index] = strlen(result);
    if (index == self->last) {
        self->stop = 1;
        self->started_at_stop = self->started;
    }
}

static void run(struct runs *runs, bool keeps_context) {
    struct tt_jobs jobs = {.count = COUNT,
                           .workers = WORKERS,
                           .context = runs,
                           .keeps_context = keeps_context,
                           .starts = starts,
                           .work = work,
                           .done = done,
                           .stop = &runs->stop};
    struct tt_error why;
    assert_int_equal(tt_jobs_run(&jobs, &why), TT_OK);
}

static int32_t processes_of(const struct runs *runs) {
    int32_t count = 0;
    for (int32_t i = 0; i < COUNT; i++) {
        int32_t before = 0;
        while (runs->pids[before] != runs->pids[i])
            before++;
        count += before == i && runs->pids[i] != 0;
    }
    return count;
}

static void each_has_a_child_or_shares_it(void **state) {
    (void)state;
    for (int32_t keeps = 0; keeps < 2; keeps++) {
        struct runs runs = {.dies = -1, .long_one = 5, .last = -1};
        run(&runs, keeps);
        assert_int_equal(runs.started, COUNT);
        assert_int_equal(runs.finished, COUNT);
        for (int32_t i = 0; i < COUNT; i++)
            assert_true(runs.pids[i] > 0 && runs.pids[i] != (long)getpid());
        assert_true(runs.lengths[5] > LONG_BYTES);
        int32_t processes = processes_of(&runs);
        assert_true(keeps ? processes <= WORKERS : processes == COUNT);
    }
}

static void a_dead_child_loses_its_job_only(void **state) {
    (void)state;
    for (int32_t keeps = 0; keeps < 2; keeps++) {
        struct runs runs = {.dies = 7, .long_one = -1, .last = -1};
        run(&runs, keeps);
        assert_int_equal(runs.finished, COUNT);
        for (int32_t i = 0; i < COUNT; i++)
            assert_true((runs.pids[i] == 0) == (i == 7));
    }
}

static void no_job_starts_after_a_stop(void **state) {
    (void)state;
    for (int32_t keeps = 0; keeps < 2; keeps++) {
        struct runs runs = {.dies = -1, .long_one = -1, .last = 10};
        signal(SIGINT, SIG_IGN); /* which children get */
        run(&runs, keeps);
        signal(SIGINT, SIG_DFL);
        assert_int_equal(runs.finished, runs.started);
        assert_int_equal(runs.started, runs.started_at_stop);
        assert_true(runs.started > 10);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_has_a_child_or_shares_it),
                                       cmocka_unit_test(a_dead_child_loses_its_job_only),
                                       cmocka_unit_test(no_job_starts_after_a_stop)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

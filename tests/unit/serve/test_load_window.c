/* S9: what a domain's last minute contains, against a list of all events. */
#include "base/prng.h"
#include "serve/load_window.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { WORLDS = 200, EVENTS = 500 };

struct event {
    int64_t at, busy_ns; /* busy_ns < 0: a request's end */
    bool is_bad;
};

/* The events of the second of `now` and of the 59 seconds before it. */
static struct tt_load_sum naive_sum(const struct event *events, int32_t count, int64_t now) {
    struct tt_load_sum sum = {0};
    int64_t from = (now / TT_S - 59) * TT_S;
    for (int32_t i = 0; i < count; i++) {
        if (events[i].at < from)
            continue;
        if (events[i].busy_ns >= 0) {
            sum.busy_ns += events[i].busy_ns;
        } else {
            sum.ended++;
            sum.bad += events[i].is_bad;
        }
    }
    sum.length_ns = count == 0 ? 0 : now - (from > events[0].at ? from : events[0].at);
    return sum;
}

static void agrees_with_a_list_of_all_events(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(1), 0);
    static struct event events[EVENTS];
    for (int32_t world = 0; world < WORLDS; world++) {
        struct tt_load_window window = {0};
        int64_t now = 1 + (int64_t)tt_prng_below(&prng, 1000 * TT_S);
        int64_t pause = 1 + (int64_t)tt_prng_below(&prng, 10 * TT_S);
        assert_int_equal(tt_load_window_sum(&window, now).length_ns, 0);
        for (int32_t i = 0; i < EVENTS; i++) {
            bool is_long = tt_prng_below(&prng, 100) == 0; /* longer than the window */
            now += (int64_t)tt_prng_below(&prng, (uint64_t)(is_long ? 100 * TT_S : pause));
            events[i] = (struct event){.at = now, .busy_ns = -1};
            if (tt_prng_below(&prng, 2)) {
                events[i].busy_ns = (int64_t)tt_prng_below(&prng, TT_S);
                tt_load_window_ran(&window, now, events[i].busy_ns);
            } else {
                events[i].is_bad = tt_prng_below(&prng, 3) == 0;
                tt_load_window_ended(&window, now, events[i].is_bad);
            }
            int64_t asked_at = now + (int64_t)tt_prng_below(&prng, 90 * TT_S);
            struct tt_load_sum found = tt_load_window_sum(&window, asked_at);
            struct tt_load_sum wanted = naive_sum(events, i + 1, asked_at);
            assert_memory_equal(&found, &wanted, sizeof(found));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(agrees_with_a_list_of_all_events)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

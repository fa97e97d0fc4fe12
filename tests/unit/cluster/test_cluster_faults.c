/* slow */
/* A cluster in virtual time under faults that are drawn at random (fault_worlds.h). */
#include "unit/cluster/fault_worlds.h"

enum { WORLDS = 400, SHARED_WORLDS = 200, REMOTE_WORLDS = 60, SHARED_PERMILLE = 700 };

static void invariants_hold_under_faults(void **state) {
    (void)state;
    play_worlds(&(struct fault_worlds){.count = WORLDS});
}

/* S7: frontends and backends share memory. */
static void invariants_hold_with_shared_memory(void **state) {
    (void)state;
    play_worlds(&(struct fault_worlds){.count = SHARED_WORLDS, .shared_permille = SHARED_PERMILLE});
}

/* S7: backends read inputs from other hosts: that takes a while, and can fail meanwhile. */
static void invariants_hold_with_remote_memory(void **state) {
    (void)state;
    play_worlds(&(struct fault_worlds){.count = REMOTE_WORLDS,
                                       .shared_permille = SHARED_PERMILLE / 2,
                                       .remote_permille = SHARED_PERMILLE});
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(invariants_hold_under_faults),
                                       cmocka_unit_test(invariants_hold_with_shared_memory),
                                       cmocka_unit_test(invariants_hold_with_remote_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

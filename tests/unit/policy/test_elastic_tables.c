/* E4, E5: tables of workers, and choices among them, that do not agree with themselves are caught.
 */
#include "policy/elastic/elastic_workers.h"

#include "unit/breach.h"

static struct tt_elastic_workers workers_of(const char *sizes, int32_t count) {
    struct tt_mechanism domain = {.executor_capacity = count};
    struct tt_option option = {"workers", sizes};
    struct tt_policy_setup setup = {.domain = &domain, .options = &option, .option_count = 1};
    struct tt_elastic_workers workers;
    struct tt_error why;
    if (tt_elastic_workers_init(&workers, &setup, &why))
        _exit(3);
    return workers;
}

static void tables_agree(void) {
    struct tt_elastic_workers workers = workers_of("1,8,2,8", 4);
    if (workers.by_size[0] != 1 || workers.by_size[1] != 3 || workers.place[0] != 3)
        _exit(4);
    tt_elastic_workers_check(&workers);
}
static void a_place_of_another(void) {
    struct tt_elastic_workers workers = workers_of("1,8,2,8", 4);
    workers.place[0] = 2;
    tt_elastic_workers_check(&workers);
}
static void small_before_large(void) {
    struct tt_elastic_workers workers = workers_of("1,8,2,8", 4);
    workers.sizes[1] = 4; /* the first in by_size */
    tt_elastic_workers_check(&workers);
}
static void equal_sizes_out_of_order(void) {
    struct tt_elastic_workers workers = workers_of("8,8", 2);
    workers.by_size[0] = workers.place[0] = 1;
    workers.by_size[1] = workers.place[1] = 0;
    tt_elastic_workers_check(&workers);
}
static void a_worker_that_holds_too_little(void) {
    struct tt_elastic_workers workers = workers_of("1,8,2,8", 4);
    workers.holding[3] = 1;
    tt_elastic_workers_check(&workers);
}
static void a_worker_without_a_set(void) {
    struct tt_elastic_workers workers = workers_of("1,8,2,8", 4);
    workers.up_to[TT_ELASTIC_SIZES - 1] = 7;
    tt_elastic_workers_check(&workers);
}

static const int32_t available[TT_ELASTIC_SIZES] = {2, 1, 1};

static void a_choice(void) {
    struct tt_elastic_choice choice = {.total = 5, .worker_count = 2, .counts = {1, 0, 1}};
    tt_elastic_choice_check(&choice, available);
}
static void a_choice_of_too_many(void) {
    struct tt_elastic_choice choice = {.total = 3, .worker_count = 3, .counts = {3}};
    tt_elastic_choice_check(&choice, available);
}
static void a_choice_of_another_sum(void) {
    struct tt_elastic_choice choice = {.total = 4, .worker_count = 2, .counts = {1, 1}};
    tt_elastic_choice_check(&choice, available);
}

static void broken_tables_are_caught(void **state) {
    (void)state;
    static const struct breach breaches[] = {
        BREACH(a_place_of_another, "self->place[worker] == i"),
        BREACH(small_before_large, "self->sizes[before] >= size"),
        BREACH(equal_sizes_out_of_order, "before < worker"),
        BREACH(a_worker_that_holds_too_little, "(self->nearest[k] & ~self->holding[k]) == 0"),
        BREACH(a_worker_without_a_set, "self->up_to[TT_ELASTIC_SIZES - 1] == all"),
        BREACH(a_choice_of_too_many, "self->counts[k] <= available[k]"),
        BREACH(a_choice_of_another_sum, "total == self->total"),
    };
    assert_holds(tables_agree);
    assert_holds(a_choice);
    assert_all_break(breaches, TT_COUNT(breaches));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(broken_tables_are_caught)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

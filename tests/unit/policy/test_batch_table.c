/* D2, D3: the table and the queues after each operation, as in the paper's figure 8; buffer pairs.
 */
#include "policy/batch_table.h"

#include "unit/breach.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { CAPACITY = 16 };

static struct tt_request requests[CAPACITY];

static void add(struct tt_batch_table *table, int32_t part, int32_t first, int32_t count) {
    for (int32_t i = first; i < first + count; i++) {
        requests[i] = (struct tt_request){.number = i, .rows = 1, .state = TT_REQUEST_QUEUED};
        tt_batch_table_add(table, part, &requests[i]);
    }
}

/* Its requests leave the list for the run, and all return. */
static void through_stage(struct tt_batch_table *table, int32_t part) {
    struct tt_request *batch[CAPACITY];
    int32_t count = 0;
    tt_batch_table_run(table, part);
    struct tt_list_node *node;
    while ((node = tt_list_first(&table->parts[part].requests))) {
        tt_list_remove(node);
        batch[count++] = TT_CONTAINER_OF(node, struct tt_request, link);
    }
    bool last = table->parts[part].stage == table->stage_count - 1;
    tt_batch_table_ended(table, part);
    for (int32_t i = 0; i < count && !last; i++)
        tt_batch_table_keep(table, part, batch[i]);
    tt_batch_table_kept(table, part);
    tt_batch_table_check(table);
}

static void demand_front(const struct tt_batch_table *table, int32_t stage, int32_t start,
                         int32_t rows) {
    int32_t part = tt_batch_table_front(table, stage);
    assert_true(part >= 0);
    assert_int_equal(table->batches[table->parts[part].batch].id, 0);
    assert_int_equal(table->parts[part].start, start);
    assert_int_equal(table->parts[part].rows, rows);
    assert_int_equal(table->parts[part].count, rows);
}

static void demand_row(const struct tt_batch_table *table, int32_t rows, int32_t first,
                       int32_t second, int32_t third) {
    const struct tt_batch_row *row = &table->batches[0];
    assert_int_equal(row->id, 0);
    assert_int_equal(row->rows, rows);
    assert_int_equal(row->created_at, 7);
    assert_int_equal(row->done[0], first);
    assert_int_equal(row->done[1], second);
    assert_int_equal(row->done[2], third);
}

/* Figure 8: batch 0 is made with 2 queries (a), stretched with 2 more at stage 2 (b), and split in
 * two behind stage 3 (c). Queue rows are (batch, start, num). */
static void figure_8(void **state) {
    (void)state;
    struct tt_batch_table table;
    assert_int_equal(tt_batch_table_init(&table, CAPACITY), TT_OK);
    tt_batch_table_start(&table, 4, 2);
    /* (a) new */
    int32_t part = tt_batch_table_new(&table, 7);
    add(&table, part, 0, 2);
    demand_row(&table, 2, 0, 0, 0);
    demand_front(&table, 0, 0, 2);
    through_stage(&table, part);
    demand_row(&table, 2, 2, 0, 0);
    assert_int_equal(tt_batch_table_take_ended(&table), part);
    tt_batch_table_push(&table, part);
    demand_front(&table, 1, 0, 2);
    /* (b) stretch: stage 2 does not forward, the newcomers are (0, 2, 2) in the first queue */
    through_stage(&table, part);
    assert_int_equal(tt_batch_table_take_ended(&table), part);
    assert_true(tt_batch_table_may_stretch(&table, part));
    int32_t newcomers = tt_batch_table_stretch(&table, part);
    add(&table, newcomers, 2, 2);
    demand_row(&table, 4, 2, 2, 0);
    demand_front(&table, 0, 2, 2);
    assert_int_equal(tt_batch_table_front(&table, 2), -1);
    through_stage(&table, newcomers);
    demand_row(&table, 4, 4, 2, 0);
    assert_int_equal(tt_batch_table_take_ended(&table), newcomers);
    assert_false(tt_batch_table_may_stretch(&table, newcomers));
    tt_batch_table_push(&table, newcomers);
    demand_front(&table, 1, 2, 2);
    through_stage(&table, newcomers); /* caught up: one part again, (0, 0, 4) */
    demand_row(&table, 4, 4, 4, 0);
    assert_int_equal(tt_batch_table_take_ended(&table), part);
    assert_int_equal(tt_batch_table_take_ended(&table), -1);
    tt_batch_table_push(&table, part);
    demand_front(&table, 2, 0, 4);
    /* (c) split behind stage 3: (0, 0, 2) and (0, 2, 2), one after the other */
    through_stage(&table, part);
    demand_row(&table, 4, 4, 4, 4);
    assert_int_equal(tt_batch_table_take_ended(&table), part);
    int32_t younger = tt_batch_table_split(&table, part, 2);
    assert_true(younger >= 0);
    tt_batch_table_push(&table, part);
    tt_batch_table_push(&table, younger);
    demand_front(&table, 3, 0, 2);
    tt_batch_table_run(&table, part);
    assert_int_equal(tt_batch_table_front(&table, 3), -1); /* the younger waits for its elder */
    for (int i = 0; i < 2; i++)
        tt_list_remove(&requests[i].link);
    tt_batch_table_ended(&table, part);
    tt_batch_table_kept(&table, part);
    demand_front(&table, 3, 2, 2);
    through_stage(&table, younger);
    assert_int_equal(table.batches[0].id, -1);
    assert_int_equal(table.active_rows, 0);
    for (int32_t s = 0; s < 3; s++)
        assert_int_equal(table.buffers[s], 0);
    tt_batch_table_fini(&table);
}

static int32_t begin(struct tt_batch_table *table, int32_t first) {
    int32_t part = tt_batch_table_new(table, 0);
    add(table, part, first, 1);
    return part;
}

static void forward(struct tt_batch_table *table, int32_t part) {
    through_stage(table, part);
    assert_int_equal(tt_batch_table_take_ended(table), part);
    tt_batch_table_push(table, part);
}

/* One pair: no batch enters before the other has left. Two: the next one follows at once. */
static void pairs_make_it_serial_or_a_pipeline(void **state) {
    (void)state;
    for (int32_t pairs = 1; pairs <= 2; pairs++) {
        struct tt_batch_table table;
        assert_int_equal(tt_batch_table_init(&table, CAPACITY), TT_OK);
        tt_batch_table_start(&table, 3, pairs);
        int32_t first = begin(&table, 0);
        forward(&table, first);
        assert_int_equal(tt_batch_table_has_buffer(&table, 0), pairs == 2);
        forward(&table, first); /* it lies behind stage 1, whose executor still lacks a buffer */
        assert_int_equal(tt_batch_table_has_buffer(&table, 0), pairs == 2);
        assert_int_equal(table.owed[0], pairs == 2 ? 0 : 1);
        through_stage(&table, first);
        assert_true(tt_batch_table_has_buffer(&table, 0));
        assert_int_equal(table.buffers[0] + table.buffers[1], 0);
        tt_batch_table_fini(&table);
    }
}

static void two_pairs_hold_two_batches_back(void **state) {
    (void)state;
    struct tt_batch_table table;
    assert_int_equal(tt_batch_table_init(&table, CAPACITY), TT_OK);
    tt_batch_table_start(&table, 2, 2);
    int32_t a = begin(&table, 0), b;
    forward(&table, a);
    b = begin(&table, 1);
    forward(&table, b);
    begin(&table, 2);
    assert_int_equal(tt_batch_table_front(&table, 0), -1); /* both buffers are written */
    assert_int_equal(tt_batch_table_front(&table, 1), a);
    through_stage(&table, a);
    assert_true(tt_batch_table_front(&table, 0) >= 0);
    tt_batch_table_fini(&table);
}

/* A removed request leaves no buffer, no sibling and no newcomer behind. */
static void cancellations_leave_nothing_behind(void **state) {
    (void)state;
    struct tt_batch_table table;
    assert_int_equal(tt_batch_table_init(&table, CAPACITY), TT_OK);
    tt_batch_table_start(&table, 3, 2);
    /* The newcomers leave: the held part continues alone. */
    int32_t part = begin(&table, 0);
    through_stage(&table, part);
    assert_int_equal(tt_batch_table_take_ended(&table), part);
    int32_t newcomers = tt_batch_table_stretch(&table, part);
    add(&table, newcomers, 1, 1);
    tt_batch_table_remove(&table, newcomers, &requests[1]);
    tt_batch_table_check(&table);
    assert_int_equal(tt_batch_table_take_ended(&table), part);
    /* The held part leaves: the newcomers are the batch. */
    newcomers = tt_batch_table_stretch(&table, part);
    add(&table, newcomers, 1, 3);
    tt_batch_table_remove(&table, part, &requests[0]);
    tt_batch_table_check(&table);
    through_stage(&table, newcomers);
    assert_int_equal(tt_batch_table_take_ended(&table), newcomers);
    /* The elder leaves: the younger need not wait. The youngest leaves: its buffer is free. */
    int32_t younger = tt_batch_table_split(&table, newcomers, 1);
    int32_t youngest = tt_batch_table_split(&table, younger, 1);
    tt_batch_table_push(&table, newcomers);
    tt_batch_table_push(&table, younger);
    tt_batch_table_push(&table, youngest);
    tt_batch_table_remove(&table, newcomers, &requests[1]);
    assert_int_equal(tt_batch_table_front(&table, 1), younger);
    tt_batch_table_remove(&table, youngest, &requests[3]);
    tt_batch_table_check(&table);
    assert_int_equal(table.buffers[0], 0);
    tt_batch_table_remove(&table, younger, &requests[2]);
    tt_batch_table_check(&table);
    assert_int_equal(table.active_count, 0);
    assert_int_equal(table.batches[0].id, -1);
    tt_batch_table_fini(&table);
}

/* D8: a request that skips a stage continues alone behind it, and does not keep the batch from
 * being stretched. */
static void a_request_that_skips_continues_alone(void **state) {
    (void)state;
    struct tt_batch_table table;
    assert_int_equal(tt_batch_table_init(&table, CAPACITY), TT_OK);
    tt_batch_table_start(&table, 4, 2);
    int32_t part = tt_batch_table_new(&table, 0);
    add(&table, part, 0, 3);
    tt_batch_table_run(&table, part);
    for (int i = 0; i < 3; i++)
        tt_list_remove(&requests[i].link);
    tt_batch_table_ended(&table, part);
    tt_batch_table_keep(&table, part, &requests[0]);
    tt_batch_table_skip(&table, part, 1, &requests[1]);
    tt_batch_table_keep(&table, part, &requests[2]);
    tt_batch_table_kept(&table, part);
    tt_batch_table_check(&table);
    int32_t alone = tt_batch_table_take_ended(&table);
    assert_int_equal(requests[1].policy_word, alone);
    assert_int_equal(table.parts[alone].stage, 1);
    assert_false(tt_batch_table_may_stretch(&table, alone));
    assert_int_equal(tt_batch_table_take_ended(&table), part);
    assert_int_equal(table.parts[part].rows, 2);
    assert_true(tt_batch_table_may_stretch(&table, part));
    tt_batch_table_push(&table, alone);
    tt_batch_table_push(&table, part);
    assert_int_equal(tt_batch_table_front(&table, 2), alone);
    assert_int_equal(tt_batch_table_front(&table, 1), part);
    tt_batch_table_fini(&table);
}

/* 5.2.2: only the latest batch is stretched, and no child of a split, even if it is the rest of its
 * batch. */
static void only_the_latest_unsplit_batch_is_stretched(void **state) {
    (void)state;
    struct tt_batch_table table;
    assert_int_equal(tt_batch_table_init(&table, CAPACITY), TT_OK);
    tt_batch_table_start(&table, 3, 2);
    int32_t first = begin(&table, 0);
    through_stage(&table, first);
    assert_true(tt_batch_table_may_stretch(&table, first));
    int32_t second = begin(&table, 1);
    assert_false(tt_batch_table_may_stretch(&table, first));
    tt_batch_table_remove(&table, first, &requests[0]);
    add(&table, second, 2, 1);
    through_stage(&table, second);
    int32_t younger = tt_batch_table_split(&table, second, 1);
    tt_batch_table_remove(&table, second, &requests[1]);
    assert_int_equal(table.batches[table.parts[younger].batch].live, 1);
    assert_false(tt_batch_table_may_stretch(&table, younger));
    tt_batch_table_fini(&table);
}

/* A table whose first stage runs, with a buffer behind it that is written. */
static void check_changed(void (*change)(struct tt_batch_table *table)) {
    struct tt_batch_table table;
    if (tt_batch_table_init(&table, CAPACITY) != TT_OK)
        return;
    tt_batch_table_start(&table, 3, 2);
    int32_t part = tt_batch_table_new(&table, 0);
    add(&table, part, 0, 1);
    tt_batch_table_run(&table, part);
    change(&table);
    tt_batch_table_check(&table);
    tt_batch_table_fini(&table);
}

static void change_nothing(struct tt_batch_table *table) { (void)table; }
static void change_written(struct tt_batch_table *table) { table->written[0]--; }
static void change_read(struct tt_batch_table *table) { table->read[0]++; }
static void change_owed(struct tt_batch_table *table) { table->owed[0] = table->buffers[0] = 2; }
static void nothing(void) { check_changed(change_nothing); }
static void one_written_less(void) { check_changed(change_written); }
static void one_read_more(void) { check_changed(change_read); }
static void owed_without_a_reason(void) { check_changed(change_owed); }

static void the_check_sees_buffers_in_a_wrong_state(void **state) {
    (void)state;
    static const struct breach breaches[] = {
        BREACH(one_written_less, "self->written[s] == held->written[s]"),
        BREACH(one_read_more, "self->read[s] == held->read[s]"),
        BREACH(owed_without_a_reason, "self->buffers[s] =="),
    };
    assert_holds(nothing);
    assert_all_break(breaches, TT_COUNT(breaches));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figure_8),
        cmocka_unit_test(pairs_make_it_serial_or_a_pipeline),
        cmocka_unit_test(two_pairs_hold_two_batches_back),
        cmocka_unit_test(cancellations_leave_nothing_behind),
        cmocka_unit_test(a_request_that_skips_continues_alone),
        cmocka_unit_test(only_the_latest_unsplit_batch_is_stretched),
        cmocka_unit_test(the_check_sees_buffers_in_a_wrong_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Rows of caches: what they should be in small cases, and, with random requests on several
 * executors that run behind, that every cell finds what its request's cells before it left. */
#include "serve/cell_caches.h"

#include "base/prng.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { CAPACITY = 32, MOST = 8 };

static const struct tt_cell_cache_task ONE_AREA = {.areas = 1, .leaves = true};

static void open_caches(struct tt_cell_caches *self, int32_t reserved) {
    assert_int_equal(tt_cell_caches_init(self, CAPACITY), TT_OK);
    assert_true(tt_cell_slots_reserve(&self->rows, reserved));
}

/* Assigns a task of members that have the rows `from`, and expects these items and rows. */
static void assign(struct tt_cell_caches *self, const struct tt_cell_cache_task *task,
                   int32_t count, const int32_t *from, const int32_t *items, const int32_t *rows) {
    struct tt_cell_cache_member members[MOST];
    for (int32_t i = 0; i < count; i++)
        members[i] = (struct tt_cell_cache_member){.item = i, .from = from[i]};
    tt_cell_caches_assign(self, task, members, count);
    for (int32_t i = 0; i < count; i++) {
        assert_int_equal(members[i].row, rows[i]);
        assert_int_equal(members[i].item, items[i]);
        assert_int_equal(members[i].from, from[members[i].item]);
    }
}

static void leave(struct tt_cell_caches *self, int32_t row) {
    tt_cell_caches_leave(self, row);
    tt_cell_caches_left(self, row);
}

static void test_holes_are_filled(void **state) {
    (void)state;
    struct tt_cell_caches c;
    open_caches(&c, 6);
    assign(&c, &ONE_AREA, 5, (int32_t[]){-1, -1, -1, -1, -1}, (int32_t[]){0, 1, 2, 3, 4},
           (int32_t[]){0, 1, 2, 3, 4});
    leave(&c, 1);
    leave(&c, 3);
    /* Row 4 is beyond four rows. The new one takes the first hole, and 4 moves to the other. */
    assign(&c, &ONE_AREA, 4, (int32_t[]){0, 2, 4, -1}, (int32_t[]){0, 3, 1, 2},
           (int32_t[]){0, 1, 2, 3});
    assert_int_equal(c.rows.in_use, 5); /* 4 is still being copied */
    tt_cell_caches_left(&c, 4);
    assert_int_equal(c.rows.in_use, 4);
    for (int32_t row = 0; row < 4; row++)
        leave(&c, row);
    assert_int_equal(c.rows.reserved, 0);
    tt_cell_caches_fini(&c);
}

static void test_rows_of_others_are_kept(void **state) {
    (void)state;
    struct tt_cell_caches c;
    open_caches(&c, 3);
    assign(&c, &ONE_AREA, 3, (int32_t[]){-1, -1, -1}, (int32_t[]){0, 1, 2}, (int32_t[]){0, 1, 2});
    assign(&c, &ONE_AREA, 2, (int32_t[]){2, 0}, (int32_t[]){1, 0}, (int32_t[]){0, 2});
    assert_int_equal(c.rows.in_use, 3);
    for (int32_t row = 0; row < 3; row++)
        leave(&c, row);
    tt_cell_caches_fini(&c);
}

/* Rows 2 and 3 are of one that waits and one that reads elsewhere: 0 and 1 stay, 7 comes closer. */
static void test_rows_of_others_are_passed_over(void **state) {
    (void)state;
    struct tt_cell_caches c;
    open_caches(&c, 8);
    assign(&c, &ONE_AREA, 8, (int32_t[]){-1, -1, -1, -1, -1, -1, -1, -1},
           (int32_t[]){0, 1, 2, 3, 4, 5, 6, 7}, (int32_t[]){0, 1, 2, 3, 4, 5, 6, 7});
    leave(&c, 4);
    leave(&c, 5);
    leave(&c, 6);
    assign(&c, &ONE_AREA, 3, (int32_t[]){0, 7, 1}, (int32_t[]){0, 2, 1}, (int32_t[]){0, 1, 4});
    tt_cell_caches_left(&c, 7);
    for (int32_t row = 0; row < 5; row++)
        leave(&c, row);
    assert_int_equal(c.rows.reserved, 0);
    tt_cell_caches_fini(&c);
}

/* A row that was left is for the executor whose tasks still use it, until they are over. */
static void test_rows_left_are_for_the_same_executor(void **state) {
    (void)state;
    struct tt_cell_caches c;
    struct tt_cell_cache_task other = {.executor = 1, .areas = 1, .leaves = true};
    open_caches(&c, 4);
    assign(&c, &ONE_AREA, 2, (int32_t[]){-1, -1}, (int32_t[]){0, 1}, (int32_t[]){0, 1});
    tt_cell_caches_leave(&c, 0);
    assign(&c, &other, 1, (int32_t[]){-1}, (int32_t[]){0}, (int32_t[]){2});
    assign(&c, &ONE_AREA, 1, (int32_t[]){-1}, (int32_t[]){0}, (int32_t[]){0});
    tt_cell_caches_left(&c, 0); /* it has a new owner */
    assert_int_equal(c.rows.in_use, 3);
    for (int32_t row = 0; row < 3; row++)
        leave(&c, row);
    assert_int_equal(c.rows.reserved, 0);
    tt_cell_caches_fini(&c);
}

static void test_the_next_type_has_an_area_of_its_own(void **state) {
    (void)state;
    struct tt_cell_caches c;
    struct tt_cell_cache_task read = {.areas = 2, .leaves = true},
                              write = {.area = 1, .areas = 2, .leaves = true};
    open_caches(&c, 3);
    assign(&c, &read, 3, (int32_t[]){-1, -1, -1}, (int32_t[]){0, 1, 2}, (int32_t[]){0, 1, 2});
    assign(&c, &write, 1, (int32_t[]){1}, (int32_t[]){0}, (int32_t[]){16});
    assign(&c, &write, 2, (int32_t[]){16, 0}, (int32_t[]){0, 1}, (int32_t[]){16, 17});
    tt_cell_caches_left(&c, 1);
    tt_cell_caches_left(&c, 0);
    leave(&c, 16);
    leave(&c, 17);
    leave(&c, 2);
    assert_int_equal(c.rows.reserved, 0);
    tt_cell_caches_fini(&c);
}

/* All rows are promised, so none is left to move to. */
static void test_without_room_nothing_moves(void **state) {
    (void)state;
    struct tt_cell_caches c;
    open_caches(&c, CAPACITY);
    assign(&c, &ONE_AREA, 3, (int32_t[]){-1, -1, -1}, (int32_t[]){0, 1, 2}, (int32_t[]){0, 1, 2});
    tt_cell_caches_return(&c, 1);
    assign(&c, &ONE_AREA, 2, (int32_t[]){0, 2}, (int32_t[]){0, 1}, (int32_t[]){0, 2});
    leave(&c, 0);
    leave(&c, 2);
    tt_cell_slots_unreserve(&c.rows, CAPACITY - 2);
    tt_cell_caches_fini(&c);
}

/* ---- random requests ---- */

enum { REQUESTS = 24, EXECUTORS = 3, DEPTH = 4, TURNS = 200000 };

struct request {
    bool lives, ended; /* ended: what is in flight runs in vain */
    int32_t row;       /* -1: none yet */
    int32_t executor, in_flight;
    int32_t number; /* of its content, unique over time */
};

struct task {
    struct tt_cell_cache_member members[MOST];
    int32_t count;
    struct request *of[MOST]; /* by item */
    int32_t number[MOST];
};

struct world {
    struct tt_cell_caches caches;
    struct tt_prng prng;
    struct request requests[REQUESTS];
    int32_t content[CAPACITY]; /* whose cache is there */
    struct task queue[EXECUTORS][DEPTH];
    int32_t submitted[EXECUTORS], run[EXECUTORS], settled[EXECUTORS];
    int32_t arrivals, pieces, tasks, moves;
};

static int32_t below(struct world *w, int32_t bound) {
    return (int32_t)tt_prng_below(&w->prng, (uint64_t)bound);
}

static void arrive(struct world *w) {
    for (int32_t i = 0; i < REQUESTS; i++) {
        struct request *request = &w->requests[i];
        if (request->lives || !tt_cell_slots_reserve(&w->caches.rows, 1))
            continue;
        *request = (struct request){.lives = true, .row = -1, .number = ++w->arrivals};
        return;
    }
}

static void submit(struct world *w) {
    int32_t e = below(w, EXECUTORS);
    if (w->submitted[e] - w->settled[e] == DEPTH)
        return;
    struct task *task = &w->queue[e][w->submitted[e] % DEPTH];
    struct tt_cell_cache_task how = {
        .executor = e, .areas = 2, .area = below(w, 5) == 0, .leaves = true};
    task->count = 0;
    for (int32_t k = 0, i = below(w, REQUESTS); k < REQUESTS && task->count < MOST; k++) {
        struct request *request = &w->requests[(i + k) % REQUESTS];
        if (!request->lives || request->ended || (request->in_flight && request->executor != e) ||
            below(w, 8) == 0)
            continue;
        task->of[task->count] = request;
        task->number[task->count] = request->number;
        task->members[task->count] =
            (struct tt_cell_cache_member){.item = task->count, .from = request->row};
        task->count++;
        request->in_flight++;
        request->executor = e;
    }
    if (task->count == 0)
        return;
    tt_cell_caches_assign(&w->caches, &how, task->members, task->count);
    for (int32_t k = 0; k < task->count; k++) {
        const struct tt_cell_cache_member *member = &task->members[k];
        task->of[member->item]->row = member->row;
        assert_true(k == 0 || member->row > task->members[k - 1].row);
        w->pieces += k == 0 || member->row != task->members[k - 1].row + 1;
        w->moves += member->from >= 0 && member->from != member->row;
    }
    w->tasks++;
    w->submitted[e]++;
}

/* As the engine: in the order of the rows. */
static void run(struct world *w) {
    int32_t e = below(w, EXECUTORS);
    if (w->run[e] == w->submitted[e])
        return;
    const struct task *task = &w->queue[e][w->run[e]++ % DEPTH];
    for (int32_t k = 0; k < task->count; k++) {
        const struct tt_cell_cache_member *member = &task->members[k];
        int32_t number = task->number[member->item];
        if (member->from >= 0)
            assert_int_equal(w->content[member->from], number);
        w->content[member->row] = number;
    }
}

static void free_request(struct world *w, struct request *request) {
    if (request->row < 0)
        tt_cell_slots_unreserve(&w->caches.rows, 1);
    else if (!request->ended)
        tt_cell_caches_leave(&w->caches, request->row);
    if (request->row >= 0)
        tt_cell_caches_left(&w->caches, request->row);
    request->lives = false;
}

static void settle(struct world *w) {
    int32_t e = below(w, EXECUTORS);
    if (w->settled[e] == w->run[e])
        return;
    struct task *task = &w->queue[e][w->settled[e]++ % DEPTH];
    for (int32_t k = 0; k < task->count; k++) {
        const struct tt_cell_cache_member *member = &task->members[k];
        if (member->from >= 0 && member->from != member->row)
            tt_cell_caches_left(&w->caches, member->from);
        struct request *request = task->of[member->item];
        request->in_flight--;
        if (!request->ended && below(w, 12) == 0) {
            tt_cell_caches_leave(&w->caches, request->row);
            request->ended = true;
        }
        if (request->in_flight == 0 && (request->ended || below(w, 30) == 0))
            free_request(w, request);
    }
}

static void test_random_requests(void **state) {
    (void)state;
    static struct world w;
    memset(&w, 0, sizeof(w));
    tt_prng_init(&w.prng, test_seed(20261129), 0);
    open_caches(&w.caches, 0);
    for (int32_t turn = 0; turn < TURNS; turn++) {
        switch (below(&w, 4)) {
        case 0: arrive(&w); break;
        case 1: submit(&w); break;
        case 2: run(&w); break;
        default: settle(&w); break;
        }
        assert_true(w.caches.rows.in_use <= w.caches.rows.reserved);
    }
    for (bool busy = true; busy;) {
        run(&w);
        settle(&w);
        busy = false;
        for (int32_t e = 0; e < EXECUTORS; e++)
            busy |= w.settled[e] < w.submitted[e];
    }
    for (int32_t i = 0; i < REQUESTS; i++)
        if (w.requests[i].lives)
            free_request(&w, &w.requests[i]);
    assert_int_equal(w.caches.rows.reserved, 0);
    tt_cell_caches_fini(&w.caches);
    assert_true(w.tasks > 1000 && w.moves > 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_holes_are_filled),
        cmocka_unit_test(test_rows_of_others_are_kept),
        cmocka_unit_test(test_rows_of_others_are_passed_over),
        cmocka_unit_test(test_rows_left_are_for_the_same_executor),
        cmocka_unit_test(test_the_next_type_has_an_area_of_its_own),
        cmocka_unit_test(test_without_room_nothing_moves),
        cmocka_unit_test(test_random_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* D3: the states of stage executors and buffers: legal moves, serial and pipelined runs, and random
 * walks against the table of the paper. */
#include "core/stage_states.h"

#include "base/prng.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* The legal moves, written down a second time, as words. */
static const char *const executor_table[][2] = {
    {"active", "checking"}, {"checking", "working"}, {"checking", "inactive"},
    {"working", "active"},  {"working", "inactive"}, {"inactive", "active"},
};
static const char *const buffer_table[][2] = {
    {"available", "inreading"}, {"available", "inwriting"}, {"invalid", "inwriting"},
    {"inwriting", "available"}, {"inreading", "invalid"},   {"invalid", "available"},
};

static bool listed(const char *const table[][2], size_t count, const char *from, const char *to) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(table[i][0], from) == 0 && strcmp(table[i][1], to) == 0)
            return true;
    return false;
}

static bool executor_listed(int32_t from, int32_t to) {
    return listed(executor_table, TT_COUNT(executor_table),
                  tt_stage_executor_state_name((enum tt_stage_executor_state)from),
                  tt_stage_executor_state_name((enum tt_stage_executor_state)to));
}

static bool buffer_listed(int32_t from, int32_t to) {
    return listed(buffer_table, TT_COUNT(buffer_table),
                  tt_stage_buffer_state_name((enum tt_stage_buffer_state)from),
                  tt_stage_buffer_state_name((enum tt_stage_buffer_state)to));
}

static void test_legal_moves(void **state) {
    (void)state;
    for (int32_t from = 0; from < TT_STAGE_EXECUTOR_STATES; from++)
        for (int32_t to = 0; to < TT_STAGE_EXECUTOR_STATES; to++)
            assert_int_equal(tt_stage_executor_may((enum tt_stage_executor_state)from,
                                                   (enum tt_stage_executor_state)to),
                             executor_listed(from, to));
    for (int32_t from = 0; from < TT_STAGE_BUFFER_STATES; from++)
        for (int32_t to = 0; to < TT_STAGE_BUFFER_STATES; to++)
            assert_int_equal(tt_stage_buffer_may((enum tt_stage_buffer_state)from,
                                                 (enum tt_stage_buffer_state)to),
                             buffer_listed(from, to));
}

/* ---- a pipeline driven at random ---- */

/* Which buffers hold a batch that its stage has not begun. A batch keeps its pair to the end. */
struct walk {
    struct tt_stage_states states;
    struct tt_prng prng;
    bool holds[TT_STAGE_STATES_MAX_STAGES + 1][TT_STAGE_STATES_MAX_PAIRS];
    int32_t started, ended, most_working;
    int32_t executors[TT_STAGE_STATES_MAX_STAGES]; /* shadows, updated by `moved` alone */
    int32_t buffers[TT_STAGE_STATES_MAX_STAGES + 1][TT_STAGE_STATES_MAX_PAIRS];
    int32_t move_count;
};

static void watch(void *context, const struct tt_stage_move *move) {
    struct walk *self = context;
    int32_t *at =
        move->pair < 0 ? &self->executors[move->stage] : &self->buffers[move->stage][move->pair];
    assert_int_equal(*at, move->from);
    assert_true(move->pair < 0 ? executor_listed(move->from, move->to)
                               : buffer_listed(move->from, move->to));
    *at = move->to;
    self->move_count++;
}

static void walk_init(struct walk *self, int32_t stages, int32_t pairs, uint64_t seed) {
    memset(self, 0, sizeof(*self));
    tt_stage_states_init(&self->states, stages, pairs);
    self->states.moved = watch;
    self->states.moved_context = self;
    tt_prng_init(&self->prng, seed, 0);
}

static int32_t working_count(const struct walk *self) {
    int32_t count = 0;
    for (int32_t s = 0; s < self->states.stages; s++)
        count += self->states.executors[s] == TT_STAGE_EXECUTOR_WORKING;
    return count;
}

/* A stage starts the batch that its input holds. True if it did. */
static bool try_start(struct walk *self, int32_t stage, int32_t pair) {
    if (self->states.executors[stage] != TT_STAGE_EXECUTOR_ACTIVE)
        return false;
    if (stage > 0 && !self->holds[stage][pair]) /* new batches are always there */
        return false;
    int32_t in = self->buffers[stage][pair], out = self->buffers[stage + 1][pair];
    bool legitimate = in == TT_STAGE_BUFFER_AVAILABLE &&
                      (out == TT_STAGE_BUFFER_AVAILABLE || out == TT_STAGE_BUFFER_INVALID) &&
                      !self->holds[stage + 1][pair]; /* what it will write over has been read */
    assert_int_equal(tt_stage_states_legitimate(&self->states, stage, pair), legitimate);
    tt_stage_states_pull(&self->states, stage, pair);
    assert_int_equal(tt_stage_states_check(&self->states, stage), legitimate);
    if (!legitimate)
        return false;
    self->started += stage == 0;
    self->holds[stage][pair] = false;
    return true;
}

static void end(struct walk *self, int32_t stage) {
    int32_t pair = self->states.pair_of[stage];
    tt_stage_states_complete(&self->states, stage);
    bool last = stage == self->states.stages - 1;
    self->ended += last;
    self->holds[stage + 1][pair] = !last;
}

/* One random step: ends a stage or starts one; where neither can be done, the pipeline is stuck. */
static void step(struct walk *self) {
    int32_t stages = self->states.stages, pairs = self->states.pairs;
    int32_t offset = (int32_t)tt_prng_below(&self->prng, (uint64_t)(stages * pairs * 2));
    for (int32_t i = 0; i < stages * pairs * 2; i++) {
        int32_t at = (offset + i) % (stages * pairs * 2), stage = at / 2 % stages;
        int32_t pair = at / 2 / stages;
        if (at % 2 == 0) {
            if (try_start(self, stage, pair))
                return;
        } else if (self->states.executors[stage] == TT_STAGE_EXECUTOR_WORKING) {
            end(self, stage);
            return;
        }
    }
    fail_msg("stuck: %d stages, %d pairs, %d started, %d ended", stages, pairs, self->started,
             self->ended);
}

static void walk(struct walk *self, int32_t steps) {
    for (int32_t i = 0; i < steps; i++) {
        step(self);
        tt_stage_states_verify(&self->states);
        for (int32_t s = 0; s <= self->states.stages; s++) {
            if (s < self->states.stages)
                assert_int_equal(self->executors[s], (int32_t)self->states.executors[s]);
            for (int32_t j = 0; j < self->states.pairs; j++)
                assert_int_equal(self->buffers[s][j], (int32_t)self->states.buffers[s][j]);
        }
        int32_t working = working_count(self);
        self->most_working = working > self->most_working ? working : self->most_working;
    }
}

static void test_random_walks(void **state) {
    (void)state;
    uint64_t seed = test_seed(20);
    for (int32_t stages = 1; stages <= 6; stages++)
        for (int32_t pairs = 1; pairs <= 4; pairs++) {
            struct walk self;
            walk_init(&self, stages, pairs, seed + (uint64_t)(stages * 10 + pairs));
            walk(&self, 2000);
            assert_true(self.ended > 50);
            assert_in_range(self.started - self.ended, 0, stages * pairs);
            assert_true(self.move_count > 2000);
            if (pairs == 1) /* serial: never two stages at once */
                assert_int_equal(self.most_working, 1);
            else if (stages > 1)
                assert_true(self.most_working > 1);
        }
}

/* The longest pipeline with the most pairs. */
static void test_limits(void **state) {
    (void)state;
    struct walk self;
    walk_init(&self, TT_STAGE_STATES_MAX_STAGES, TT_STAGE_STATES_MAX_PAIRS, test_seed(21));
    while (self.ended < 50) /* a pipeline that is stuck ends the test */
        walk(&self, 100);
    assert_in_range(self.started - self.ended, 0, self.states.stages * self.states.pairs);
}

/* ---- the paper's cases ---- */

/* One pair, three stages: all other executors are inactive until the last stage has ended. */
static void test_one_pair_is_serial(void **state) {
    (void)state;
    struct tt_stage_states states;
    tt_stage_states_init(&states, 3, 1);
    tt_stage_states_pull(&states, 0, 0);
    assert_true(tt_stage_states_check(&states, 0));
    tt_stage_states_complete(&states, 0);
    assert_int_equal(states.executors[0], TT_STAGE_EXECUTOR_INACTIVE);
    tt_stage_states_pull(&states, 1, 0);
    assert_true(tt_stage_states_check(&states, 1));
    tt_stage_states_complete(&states, 1);
    assert_int_equal(states.executors[0], TT_STAGE_EXECUTOR_INACTIVE);
    assert_int_equal(states.executors[1], TT_STAGE_EXECUTOR_INACTIVE);
    tt_stage_states_pull(&states, 2, 0);
    assert_true(tt_stage_states_check(&states, 2));
    assert_int_equal(states.executors[0], TT_STAGE_EXECUTOR_INACTIVE);
    tt_stage_states_complete(&states, 2);
    for (int32_t s = 0; s < 3; s++)
        assert_int_equal(states.executors[s], TT_STAGE_EXECUTOR_ACTIVE);
}

/* Two pairs: a stage that pulls a batch whose output the next stage still reads becomes inactive
 * until that stage has ended. */
static void test_check_rejects_a_buffer_in_use(void **state) {
    (void)state;
    struct tt_stage_states states;
    tt_stage_states_init(&states, 2, 2);
    for (int32_t stage = 0; stage < 2; stage++) {
        tt_stage_states_pull(&states, stage, 0);
        assert_true(tt_stage_states_check(&states, stage));
        if (stage == 0)
            tt_stage_states_complete(&states, 0);
    }
    /* Stage 1 reads buffer (1, 0). The first pair is not legitimate for stage 0; the second is. */
    assert_false(tt_stage_states_legitimate(&states, 0, 0));
    assert_true(tt_stage_states_legitimate(&states, 0, 1));
    tt_stage_states_pull(&states, 0, 0);
    assert_false(tt_stage_states_check(&states, 0));
    assert_int_equal(states.executors[0], TT_STAGE_EXECUTOR_ACTIVE); /* because of pair 1 */
    tt_stage_states_pull(&states, 0, 1);
    assert_true(tt_stage_states_check(&states, 0));
    tt_stage_states_complete(&states, 0);
    assert_int_equal(states.executors[0], TT_STAGE_EXECUTOR_INACTIVE);
    tt_stage_states_complete(&states, 1);
    assert_int_equal(states.executors[0], TT_STAGE_EXECUTOR_ACTIVE);
    assert_true(tt_stage_states_legitimate(&states, 0, 0));
    tt_stage_states_verify(&states);
}

/* Three pairs. Stage 2 is busy with pair 1, so the result of stage 1 in pair 0 is unread. A new
 * batch in pair 0 may not overwrite it, although both buffers are available. */
static void test_an_unread_result_is_not_overwritten(void **state) {
    (void)state;
    static const int32_t runs[][2] = {{0, 1}, {1, 1}, {2, 1}, {0, 0}, {1, 0}, {0, 0}};
    struct tt_stage_states states;
    tt_stage_states_init(&states, 3, 3);
    for (size_t i = 0; i < TT_COUNT(runs); i++) {
        int32_t stage = runs[i][0], pair = runs[i][1];
        tt_stage_states_pull(&states, stage, pair);
        assert_true(tt_stage_states_check(&states, stage));
        if (stage < 2) /* the last stage goes on with pair 1 */
            tt_stage_states_complete(&states, stage);
    }
    assert_int_equal(states.buffers[1][0], TT_STAGE_BUFFER_AVAILABLE);
    assert_int_equal(states.buffers[2][0], TT_STAGE_BUFFER_AVAILABLE);
    assert_false(tt_stage_states_legitimate(&states, 1, 0));
    tt_stage_states_pull(&states, 1, 0);
    assert_false(tt_stage_states_check(&states, 1));
    tt_stage_states_complete(&states, 2);
    tt_stage_states_pull(&states, 2, 0);
    assert_true(tt_stage_states_check(&states, 2));
    tt_stage_states_complete(&states, 2);
    assert_true(tt_stage_states_legitimate(&states, 1, 0));
    tt_stage_states_verify(&states);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_legal_moves),
        cmocka_unit_test(test_random_walks),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_one_pair_is_serial),
        cmocka_unit_test(test_check_rejects_a_buffer_in_use),
        cmocka_unit_test(test_an_unread_result_is_not_overwritten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

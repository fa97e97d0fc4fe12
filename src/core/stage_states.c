#include "core/stage_states.h"

/* Bit `to` of entry `from`. */
static const uint32_t executor_moves[TT_STAGE_EXECUTOR_STATES] = {
    [TT_STAGE_EXECUTOR_ACTIVE] = 1u << TT_STAGE_EXECUTOR_CHECKING,
    [TT_STAGE_EXECUTOR_CHECKING] =
        1u << TT_STAGE_EXECUTOR_WORKING | 1u << TT_STAGE_EXECUTOR_INACTIVE,
    [TT_STAGE_EXECUTOR_WORKING] = 1u << TT_STAGE_EXECUTOR_ACTIVE | 1u << TT_STAGE_EXECUTOR_INACTIVE,
    [TT_STAGE_EXECUTOR_INACTIVE] = 1u << TT_STAGE_EXECUTOR_ACTIVE,
};
static const uint32_t buffer_moves[TT_STAGE_BUFFER_STATES] = {
    [TT_STAGE_BUFFER_AVAILABLE] = 1u << TT_STAGE_BUFFER_INREADING | 1u << TT_STAGE_BUFFER_INWRITING,
    [TT_STAGE_BUFFER_INVALID] = 1u << TT_STAGE_BUFFER_INWRITING | 1u << TT_STAGE_BUFFER_AVAILABLE,
    [TT_STAGE_BUFFER_INREADING] = 1u << TT_STAGE_BUFFER_INVALID,
    [TT_STAGE_BUFFER_INWRITING] = 1u << TT_STAGE_BUFFER_AVAILABLE,
};

bool tt_stage_executor_may(enum tt_stage_executor_state from, enum tt_stage_executor_state to) {
    return executor_moves[from] >> to & 1;
}

bool tt_stage_buffer_may(enum tt_stage_buffer_state from, enum tt_stage_buffer_state to) {
    return buffer_moves[from] >> to & 1;
}

const char *tt_stage_executor_state_name(enum tt_stage_executor_state state) {
    static const char *const names[] = {"active", "checking", "working", "inactive"};
    return names[state];
}

const char *tt_stage_buffer_state_name(enum tt_stage_buffer_state state) {
    static const char *const names[] = {"available", "invalid", "inreading", "inwriting"};
    return names[state];
}

/* ---- moves ---- */

static void move_executor(struct tt_stage_states *self, int32_t stage,
                          enum tt_stage_executor_state to) {
    enum tt_stage_executor_state from = self->executors[stage];
    tt_assert(tt_stage_executor_may(from, to));
    self->executors[stage] = to;
    const struct tt_stage_move move = {stage, -1, (int32_t)from, (int32_t)to};
    if (self->moved)
        self->moved(self->moved_context, &move);
}

static void move_buffer(struct tt_stage_states *self, int32_t stage, int32_t pair,
                        enum tt_stage_buffer_state to) {
    enum tt_stage_buffer_state from = self->buffers[stage][pair];
    tt_assert(tt_stage_buffer_may(from, to));
    self->buffers[stage][pair] = to;
    const struct tt_stage_move move = {stage, pair, (int32_t)from, (int32_t)to};
    if (self->moved)
        self->moved(self->moved_context, &move);
}

bool tt_stage_states_legitimate(const struct tt_stage_states *self, int32_t stage, int32_t pair) {
    enum tt_stage_buffer_state out = self->buffers[stage + 1][pair];
    bool is_unread = stage + 1 < self->stages && (self->unread[stage + 1] >> pair & 1);
    return !is_unread && self->buffers[stage][pair] == TT_STAGE_BUFFER_AVAILABLE &&
           (out == TT_STAGE_BUFFER_AVAILABLE || out == TT_STAGE_BUFFER_INVALID);
}

static bool may_be_active(const struct tt_stage_states *self, int32_t stage) {
    if (stage == self->stages - 1)
        return true;
    for (int32_t j = 0; j < self->pairs; j++)
        if (tt_stage_states_legitimate(self, stage, j))
            return true;
    return false;
}

/* The executor is active: the stage before it may use the pairs that it ran. */
static void hand_back(struct tt_stage_states *self, int32_t stage) {
    int32_t before = stage > 0 ? stage - 1 : 0;
    bool gives = stage > 0 || self->stages == 1;
    for (int32_t j = 0; j < self->pairs; j++)
        if (self->owed[stage] >> j & 1 && gives &&
            self->buffers[before][j] == TT_STAGE_BUFFER_INVALID)
            move_buffer(self, before, j, TT_STAGE_BUFFER_AVAILABLE);
    self->owed[stage] = 0;
}

/* Wakes inactive executors, the last first: what one hands back may wake the one before it. A
 * buffer that a stage writes or reads can also wake the one behind, hence the repetition. */
static void settle(struct tt_stage_states *self) {
    for (bool again = true; again;) {
        again = false;
        for (int32_t s = self->stages - 1; s >= 0; s--)
            if (self->executors[s] == TT_STAGE_EXECUTOR_INACTIVE && may_be_active(self, s)) {
                move_executor(self, s, TT_STAGE_EXECUTOR_ACTIVE);
                hand_back(self, s);
                again = true;
            }
    }
}

/* ---- the life of a batch ---- */

void tt_stage_states_init(struct tt_stage_states *self, int32_t stages, int32_t pairs) {
    tt_assert(stages >= 1 && stages <= TT_STAGE_STATES_MAX_STAGES);
    tt_assert(pairs >= 1 && pairs <= TT_STAGE_STATES_MAX_PAIRS);
    *self = (struct tt_stage_states){.stages = stages, .pairs = pairs};
    for (int32_t s = 0; s < stages; s++)
        self->pair_of[s] = -1;
}

void tt_stage_states_pull(struct tt_stage_states *self, int32_t stage, int32_t pair) {
    tt_assert(stage >= 0 && stage < self->stages);
    tt_assert(pair >= 0 && pair < self->pairs);
    move_executor(self, stage, TT_STAGE_EXECUTOR_CHECKING);
    self->pair_of[stage] = pair;
}

bool tt_stage_states_check(struct tt_stage_states *self, int32_t stage) {
    int32_t pair = self->pair_of[stage];
    tt_assert(self->executors[stage] == TT_STAGE_EXECUTOR_CHECKING);
    if (!tt_stage_states_legitimate(self, stage, pair)) {
        self->pair_of[stage] = -1;
        move_executor(self, stage, TT_STAGE_EXECUTOR_INACTIVE);
        settle(self);
        return false;
    }
    move_executor(self, stage, TT_STAGE_EXECUTOR_WORKING);
    self->unread[stage] &= ~(1u << pair);
    move_buffer(self, stage, pair, TT_STAGE_BUFFER_INREADING);
    move_buffer(self, stage + 1, pair, TT_STAGE_BUFFER_INWRITING);
    return true;
}

void tt_stage_states_complete(struct tt_stage_states *self, int32_t stage) {
    int32_t pair = self->pair_of[stage];
    tt_assert(self->executors[stage] == TT_STAGE_EXECUTOR_WORKING);
    self->pair_of[stage] = -1;
    move_buffer(self, stage, pair, TT_STAGE_BUFFER_INVALID);
    move_buffer(self, stage + 1, pair, TT_STAGE_BUFFER_AVAILABLE);
    if (stage + 1 < self->stages)
        self->unread[stage + 1] |= 1u << pair;
    self->owed[stage] |= 1u << pair;
    bool active = may_be_active(self, stage);
    move_executor(self, stage, active ? TT_STAGE_EXECUTOR_ACTIVE : TT_STAGE_EXECUTOR_INACTIVE);
    if (active)
        hand_back(self, stage);
    settle(self);
}

void tt_stage_states_verify(const struct tt_stage_states *self) {
    for (int32_t s = 0; s < self->stages; s++) {
        enum tt_stage_executor_state state = self->executors[s];
        tt_assert(state != TT_STAGE_EXECUTOR_INACTIVE || !may_be_active(self, s));
        tt_assert((self->pair_of[s] >= 0) ==
                  (state == TT_STAGE_EXECUTOR_CHECKING || state == TT_STAGE_EXECUTOR_WORKING));
    }
    for (int32_t s = 0; s <= self->stages; s++)
        for (int32_t j = 0; j < self->pairs; j++) {
            bool reads = s < self->stages && self->executors[s] == TT_STAGE_EXECUTOR_WORKING &&
                         self->pair_of[s] == j;
            bool writes = s > 0 && self->executors[s - 1] == TT_STAGE_EXECUTOR_WORKING &&
                          self->pair_of[s - 1] == j;
            tt_assert((self->buffers[s][j] == TT_STAGE_BUFFER_INREADING) == reads);
            tt_assert((self->buffers[s][j] == TT_STAGE_BUFFER_INWRITING) == writes);
        }
}

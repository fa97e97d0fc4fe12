#include "lab/replay/replay_threads.h"

#include "lab/scenario/allocate.h"
#include "multicore/threaded_policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct party {
    struct tt_recording_cursor cursor;
    bool has_cursor;
    bool busy; /* a turn of it is running */
    struct tt_turn_log turn_log;
    int64_t turns;
    size_t offset; /* of its current or last turn */
};

/* The values of a register that may still be read. */
struct values {
    unsigned char *bytes; /* [capacity][TT_LATEST_BYTES] */
    uint64_t first;       /* the version of the first value kept */
    uint32_t count, capacity;
};

struct tt_replay_threads {
    struct tt_turn_log_player player;
    const struct tt_recording *recording;
    struct tt_mechanism *mechanism;
    struct party *parties;
    int32_t party_count, registers;
    struct values *values; /* [registers] */
    struct tt_replay_threads_state state;
};

static struct tt_replay_threads *threads_of(struct tt_turn_log_player *player) {
    return TT_CONTAINER_OF(player, struct tt_replay_threads, player);
}

/* ---- how it ends ---- */

static void fail(struct tt_turn_log_player *player, int32_t index, const char *what) {
    struct tt_replay_threads *self = threads_of(player);
    const struct party *party = &self->parties[index];
    char name[40];
    if (player->over)
        return;
    player->over = true;
    self->state.differs = true;
    if (index == TT_PARTY_DOMAIN)
        snprintf(name, sizeof(name), "the domain's part");
    else if (index == TT_PARTY_RANK)
        snprintf(name, sizeof(name), "the rank thread");
    else
        snprintf(name, sizeof(name), "model thread %d", index - TT_PARTY_MODELS);
    (void)tt_fail(TT_ERR_INVALID, &self->state.why, "%s differs at turn %lld (offset %zu): %s",
                  name, (long long)party->turns, party->offset, what);
}

/* ---- turns ---- */

/* Loads the party's next recorded turn. False: there is none, which is a difference if the turn is
 * `needed`; or the replay has ended. */
static bool load(struct tt_replay_threads *self, int32_t index, bool needed) {
    struct party *party = &self->parties[index];
    const struct tt_recorded_event *event;
    enum tt_err err = tt_recording_next(&party->cursor, &event, &self->state.why);
    if (err) {
        self->player.over = true;
        self->state.err = err;
        return false;
    }
    if (event && event->kind == TT_RECORD_TURN) {
        tt_turn_log_load(&party->turn_log, event->now, event->message, event->message_bytes);
        party->offset = event->offset;
        party->turns++;
        self->state.turns++;
        return true;
    }
    if (event) {
        self->state.lost = event->lost;
        self->player.over = true;
    } else if (!tt_recording_has_end(self->recording)) {
        self->state.cut = !self->recording->complete;
        self->player.over = true;
    } else if (needed) {
        fail(&self->player, index, "what others took of it is not in the recording");
    }
    return false;
}

static void begin(struct tt_turn_log_player *player) {
    if (!player->over)
        (void)load(threads_of(player), TT_PARTY_DOMAIN, true);
}

static void play(struct tt_replay_threads *self, int32_t index) {
    struct party *party = &self->parties[index];
    party->busy = true;
    tt_threaded_policy_play_turn(self->mechanism->policy, index, party->turn_log.played_at);
    party->busy = false;
}

static bool demand(struct tt_turn_log_player *player, int32_t index) {
    struct tt_replay_threads *self = threads_of(player);
    if (player->over)
        return false;
    if (index == TT_PARTY_DOMAIN || self->parties[index].busy) {
        fail(player, index, "others took of it what it has not made yet");
        return false;
    }
    if (!load(self, index, true))
        return false;
    play(self, index);
    return !player->over;
}

void tt_replay_threads_finish(struct tt_replay_threads *self) {
    if (!tt_recording_has_end(self->recording))
        return; /* the threads may have gone beyond the known events of the domain */
    for (int32_t p = TT_PARTY_RANK; p < self->party_count; p++)
        while (!self->player.over && load(self, p, false))
            play(self, p);
    if (!self->player.over && load(self, TT_PARTY_DOMAIN, false))
        fail(&self->player, TT_PARTY_DOMAIN, "it decided once more than the domain's story has");
}

/* ---- registers ---- */

static void wrote(struct tt_turn_log_player *player, int32_t index, const void *value,
                  int32_t bytes) {
    struct tt_replay_threads *self = threads_of(player);
    struct values *v = &self->values[index];
    if (v->count == v->capacity) {
        v->capacity = v->capacity ? 2 * v->capacity : 4;
        v->bytes = tt_reallocate(v->bytes, v->capacity, TT_LATEST_BYTES);
    }
    memcpy(v->bytes + (size_t)v->count++ * TT_LATEST_BYTES, value, (size_t)bytes);
}

/* One thread reads a register, in ascending versions: older values are discarded once they are half
 * of those kept. Only the register of the fleet has several readers. */
static const void *value(struct tt_turn_log_player *player, int32_t index, uint64_t version) {
    struct tt_replay_threads *self = threads_of(player);
    struct values *v = &self->values[index];
    if (version < v->first || version >= v->first + v->count)
        return NULL;
    uint32_t before = (uint32_t)(version - v->first);
    if (index < self->registers - 1 && before > v->count / 2) {
        v->count -= before;
        v->first = version;
        memmove(v->bytes, v->bytes + (size_t)before * TT_LATEST_BYTES,
                (size_t)v->count * TT_LATEST_BYTES);
        before = 0;
    }
    return v->bytes + (size_t)before * TT_LATEST_BYTES;
}

/* ---- construction ---- */

static enum tt_err wrong(const struct tt_replay_threads *self, size_t offset, const char *what,
                         struct tt_error *why) {
    return tt_fail(TT_ERR_INVALID, why, "%s: offset %zu: %s", self->recording->name, offset, what);
}

/* Adds the stream if it belongs to a party of this domain. */
static enum tt_err add_stream(struct tt_replay_threads *self, int32_t stream, int32_t domain_stream,
                              struct tt_error *why) {
    struct tt_recording_cursor cursor;
    const struct tt_recorded_event *event;
    enum tt_err err = tt_recording_cursor_init(&cursor, self->recording, stream, why);
    if (err)
        return err;
    err = tt_recording_next(&cursor, &event, why);
    if (err || !event || event->index != domain_stream) {
        tt_recording_cursor_fini(&cursor);
        return err;
    }
    if (event->count != self->party_count || event->party >= self->party_count ||
        self->parties[event->party].has_cursor) {
        err = wrong(self, event->offset, "a thread that the domain does not have", why);
        tt_recording_cursor_fini(&cursor);
        return err;
    }
    struct party *party = &self->parties[event->party];
    party->turn_log.party = event->party;
    party->cursor = cursor;
    party->has_cursor = true;
    return TT_OK;
}

static enum tt_err find_streams(struct tt_replay_threads *self, int32_t domain_stream,
                                struct tt_error *why) {
    enum tt_err err = TT_OK;
    for (int32_t s = 0; !err && s < self->recording->stream_count; s++)
        if (self->recording->of_thread[s])
            err = add_stream(self, s, domain_stream, why);
    for (int32_t p = 0; !err && p < self->party_count; p++)
        if (self->parties[p].has_cursor)
            continue;
        else if (tt_recording_has_end(self->recording))
            err = wrong(self, self->recording->end_bytes,
                        "a thread that scheduled the domain is not in the recording", why);
        else { /* the file ended before its first event */
            self->player.over = true;
            self->state.cut = !self->recording->complete;
        }
    return err;
}

static void wake(void *context) { (void)context; /* waiting turns poll */ }

/* Makes the policy on threads, none of which runs, and a turn log for each of them and the domain.
 */
static enum tt_err make_policy(struct tt_replay_threads *self,
                               const struct tt_record_domain *domain, struct tt_error *why) {
    struct tt_policy_setup setup = tt_record_domain_setup(domain, self->mechanism);
    struct tt_threaded_policy_options options = {.threads = domain->scheduler_threads,
                                                 .max_batch = domain->limits.max_batch,
                                                 .request_limit = domain->limits.request_limit,
                                                 .wake = wake};
    enum tt_err err =
        tt_threaded_policy_create(self->mechanism, domain->policy, &setup, &options, why);
    if (err)
        return err;
    self->registers = tt_turn_log_registers(domain->limits.model_capacity);
    self->party_count = tt_threaded_policy_parties(self->mechanism->policy);
    self->parties = tt_allocate((size_t)self->party_count, sizeof(*self->parties));
    self->values = tt_allocate((size_t)self->registers, sizeof(*self->values));
    struct tt_turn_log **turn_logs =
        tt_allocate((size_t)self->party_count, sizeof(struct tt_turn_log *));
    for (int32_t r = 0; r < self->registers; r++)
        self->values[r].first = 1;
    for (int32_t p = 0; p < self->party_count; p++) {
        turn_logs[p] = &self->parties[p].turn_log;
        turn_logs[p]->party = p;
        turn_logs[p]->player = &self->player;
        turn_logs[p]->seen = tt_allocate((size_t)self->registers, sizeof(*turn_logs[p]->seen));
    }
    tt_threaded_policy_use_turn_logs(self->mechanism->policy, turn_logs);
    free(turn_logs);
    return TT_OK;
}

enum tt_err tt_replay_threads_new(const struct tt_recording *recording, int32_t domain_stream,
                                  const struct tt_record_domain *domain,
                                  struct tt_mechanism *mechanism,
                                  struct tt_replay_threads **out_threads, struct tt_error *why) {
    struct tt_replay_threads *self = tt_allocate(1, sizeof(*self));
    self->player = (struct tt_turn_log_player){
        .begin = begin, .demand = demand, .wrote = wrote, .value = value, .fail = fail};
    self->recording = recording;
    self->mechanism = mechanism;
    enum tt_err err = make_policy(self, domain, why);
    if (!err)
        err = find_streams(self, domain_stream, why);
    if (err) {
        tt_policy_destroy(mechanism);
        tt_replay_threads_free(self);
        return err;
    }
    *out_threads = self;
    return TT_OK;
}

void tt_replay_threads_free(struct tt_replay_threads *take_threads) {
    if (!take_threads)
        return;
    struct tt_replay_threads *self = take_threads;
    for (int32_t p = 0; self->parties && p < self->party_count; p++) {
        if (self->parties[p].has_cursor)
            tt_recording_cursor_fini(&self->parties[p].cursor);
        free(self->parties[p].turn_log.seen);
    }
    for (int32_t r = 0; self->values && r < self->registers; r++)
        free(self->values[r].bytes);
    free(self->parties);
    free(self->values);
    free(self);
}

const struct tt_replay_threads_state *tt_replay_threads_state(struct tt_replay_threads *self) {
    self->state.over = self->player.over;
    return &self->state;
}

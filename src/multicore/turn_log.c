#include "multicore/turn_log.h"

#include "base/varint.h"

#include <string.h>

enum { CHECKSUM_BYTES = 2 };

size_t tt_turn_log_turn_bytes(int32_t models, int32_t batches, int32_t parties) {
    /* Numbers per model: in the set of candidates, read then or with an answer, in the set of
     * loads, read. One per batch that ends. Per party: a ring and two sets. */
    size_t numbers = (size_t)models * 5 + (size_t)batches + (size_t)parties * 3 + 8;
    return CHECKSUM_BYTES + numbers * TT_VARINT_BYTES;
}

/* ---- numbers ---- */

static void put(struct tt_turn_log *self, uint64_t number) {
    tt_assert(self->to + TT_VARINT_BYTES <= self->bytes + self->capacity);
    self->to = tt_varint_put(self->to, number);
}

static int64_t get(struct tt_turn_log *self, int64_t most) {
    uint64_t number;
    if (self->player->over || self->at == self->end)
        return 0;
    if (tt_varint_get(&self->at, self->end, &number) && number <= (uint64_t)most)
        return (int64_t)number;
    self->player->fail(self->player, self->party, "a number of its turn is out of range");
    return 0;
}

int64_t tt_turn_log_number(struct tt_turn_log *self, int64_t found, int64_t most) {
    if (!self)
        return found;
    if (self->player)
        return get(self, most);
    put(self, (uint64_t)found);
    return found;
}

/* ---- turns ---- */

void tt_turn_log_begin(struct tt_turn_log *self) {
    if (!self)
        return;
    self->made = 0;
    if (!self->player)
        self->to = self->bytes + CHECKSUM_BYTES;
    else if (self->party == TT_PARTY_DOMAIN)
        self->player->begin(self->player);
}

static uint64_t checksum(const struct tt_turn_log *self) {
    return self->made >> (64 - 8 * CHECKSUM_BYTES);
}

static void hand_over(struct tt_turn_log *self, int64_t now) {
    self->bytes[0] = (uint8_t)checksum(self);
    self->bytes[1] = (uint8_t)(checksum(self) >> 8);
    const uint8_t *end = self->to;
    /* The bytes are whole varints, so each zero at the end is one number. */
    while (end > self->bytes + CHECKSUM_BYTES && end[-1] == 0)
        end--;
    if (end == self->bytes + CHECKSUM_BYTES && checksum(self) == 0)
        end = self->bytes;
    self->turned(self->context, now, self->bytes, (size_t)(end - self->bytes));
}

void tt_turn_log_load(struct tt_turn_log *self, int64_t now, const uint8_t *bytes, size_t count) {
    bool has_checksum = count >= CHECKSUM_BYTES;
    self->made_then = has_checksum ? bytes[0] | (uint64_t)bytes[1] << 8 : 0;
    self->at = has_checksum ? bytes + CHECKSUM_BYTES : bytes;
    self->end = bytes + count;
    self->played_at = now;
}

void tt_turn_log_end(struct tt_turn_log *self, int64_t now) {
    if (!self)
        return;
    if (!self->player) {
        hand_over(self, now);
        return;
    }
    bool same = checksum(self) == self->made_then;
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
    same = true; /* the fuzzer cannot guess a checksum */
#endif
    if (self->player->over)
        return;
    if (now != self->played_at)
        self->player->fail(self->player, self->party, "its turn was at another instant");
    else if (!same)
        self->player->fail(self->player, self->party, "what it decided is not what was recorded");
    else if (self->at != self->end)
        self->player->fail(self->player, self->party, "its turn has numbers that were not read");
}

void tt_turn_log_expect(struct tt_turn_log *self, bool holds, const char *what) {
    if (tt_turn_log_plays(self) && !holds && !self->player->over)
        self->player->fail(self->player, self->party, what);
}

/* ---- input from other parties ---- */

void tt_turn_log_take(struct tt_turn_log *self, struct tt_record_ring *ring, int32_t most,
                      int32_t from) {
    if (!self)
        return;
    if (!self->player) {
        int32_t seen = tt_record_ring_seen(ring);
        put(self, (uint64_t)(seen < most ? seen : most));
        return;
    }
    int32_t count = (int32_t)get(self, most);
    while (!tt_record_ring_look_for(ring, count))
        if (!self->player->demand(self->player, from)) {
            bool none = tt_record_ring_look_for(ring, 0);
            tt_assert(none);
            return;
        }
}

static bool play_value(struct tt_turn_log *self, int32_t index, int32_t writer, void *out_value,
                       int32_t bytes) {
    int64_t step = get(self, INT64_MAX - 1);
    if (step == 0)
        return false;
    uint64_t version = self->seen[index] + (uint64_t)step - 1;
    const void *value;
    while (!(value = self->player->value(self->player, index, version)))
        if (!self->player->demand(self->player, writer))
            return false;
    memcpy(out_value, value, (size_t)bytes);
    self->seen[index] = version;
    return true;
}

bool tt_turn_log_read(struct tt_turn_log *self, int32_t index, const struct tt_latest *latest,
                      int32_t writer, void *out_value, int32_t bytes) {
    if (!self)
        return tt_latest_read(latest, out_value, bytes);
    if (self->player)
        return play_value(self, index, writer, out_value, bytes);
    uint64_t version = tt_latest_take(latest, out_value, bytes) / 2;
    put(self, version ? 1 + version - self->seen[index] : 0);
    if (version)
        self->seen[index] = version;
    return version != 0;
}

void tt_turn_log_write(struct tt_turn_log *self, int32_t index, struct tt_latest *latest,
                       const void *value, int32_t bytes) {
    if (tt_turn_log_plays(self))
        self->player->wrote(self->player, index, value, bytes);
    else
        tt_latest_write(latest, value, bytes);
}

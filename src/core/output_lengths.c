#include "core/output_lengths.h"

#include <string.h>

enum { OCTAVE_OF_EXACT = 4, BITS_PER_OCTAVE = 3 };
_Static_assert(1 << OCTAVE_OF_EXACT == TT_OUTPUT_EXACT, "the octaves begin above");
_Static_assert(1 << BITS_PER_OCTAVE == TT_OUTPUT_PER_OCTAVE, "buckets of an octave");

int32_t tt_output_lengths_bucket(int32_t length) {
    tt_assert(length >= 1);
    if (length <= TT_OUTPUT_EXACT)
        return length - 1;
    /* Of lengths above 2^n up to 2^(n + 1): the three bits after the first one. */
    uint32_t value = (uint32_t)(length < TT_OUTPUT_MAX_LENGTH ? length : TT_OUTPUT_MAX_LENGTH) - 1;
    int32_t octave = 31 - __builtin_clz(value);
    int32_t part = (int32_t)(value >> (octave - BITS_PER_OCTAVE)) - TT_OUTPUT_PER_OCTAVE;
    int32_t bucket = TT_OUTPUT_EXACT + (octave - OCTAVE_OF_EXACT) * TT_OUTPUT_PER_OCTAVE + part;
    tt_assert(bucket < TT_OUTPUT_LENGTH_BUCKETS);
    return bucket;
}

int32_t tt_output_lengths_largest(int32_t bucket) {
    if (bucket < TT_OUTPUT_EXACT)
        return bucket + 1;
    int32_t above = bucket - TT_OUTPUT_EXACT;
    int32_t octave = OCTAVE_OF_EXACT + above / TT_OUTPUT_PER_OCTAVE;
    int32_t part = above % TT_OUTPUT_PER_OCTAVE;
    return (TT_OUTPUT_PER_OCTAVE + part + 1) << (octave - BITS_PER_OCTAVE);
}

void tt_output_lengths_init(struct tt_output_lengths *self, const int32_t prior[TT_QUANTILES]) {
    *self = (struct tt_output_lengths){.pause = TT_OUTPUT_PAUSE};
    memcpy(self->quantiles, prior, sizeof(self->quantiles));
}

static void forget(struct tt_output_lengths *self) {
    self->total = 0;
    for (int32_t b = 0; b < TT_OUTPUT_LENGTH_BUCKETS; b++) {
        self->counts[b] /= 2;
        self->total += self->counts[b];
    }
}

static void compute(const struct tt_output_lengths *self, int32_t out[TT_QUANTILES]) {
    int64_t sum = 0;
    int32_t percent = 0;
    for (int32_t b = 0; b < TT_OUTPUT_LENGTH_BUCKETS && percent < TT_QUANTILES; b++) {
        sum += self->counts[b];
        /* The smallest length that this share does not exceed; at least one output counts. */
        while (percent < TT_QUANTILES && self->counts[b] > 0 &&
               sum * (TT_QUANTILES - 1) >= (int64_t)self->total * percent)
            out[percent++] = tt_output_lengths_largest(b);
    }
    tt_assert(percent == TT_QUANTILES);
}

static bool has_left(int32_t written, int32_t value) {
    int64_t distance = value > written ? value - written : written - value;
    return distance * 100 > (int64_t)written * TT_OUTPUT_MOVE_PERCENT;
}

bool tt_output_lengths_add(struct tt_output_lengths *self, int32_t length) {
    self->counts[tt_output_lengths_bucket(length > 1 ? length : 1)] += TT_OUTPUT_WEIGHT;
    self->total += TT_OUTPUT_WEIGHT;
    if (self->total >= TT_OUTPUT_MEMORY * TT_OUTPUT_WEIGHT)
        forget(self);
    if (--self->pause > 0)
        return false;
    self->pause = TT_OUTPUT_PAUSE;
    int32_t quantiles[TT_QUANTILES];
    compute(self, quantiles);
    if (!has_left(self->quantiles[50], quantiles[50]) &&
        !has_left(self->quantiles[90], quantiles[90]))
        return false;
    memcpy(self->quantiles, quantiles, sizeof(quantiles));
    self->moves++;
    return true;
}

void tt_output_lengths_check(const struct tt_output_lengths *self) {
    int64_t sum = 0;
    for (int32_t b = 0; b < TT_OUTPUT_LENGTH_BUCKETS; b++) {
        tt_assert(self->counts[b] >= 0);
        sum += self->counts[b];
    }
    tt_assert(sum == self->total);
    tt_assert(self->total < TT_OUTPUT_MEMORY * TT_OUTPUT_WEIGHT);
    tt_assert(self->pause >= 1);
    tt_assert(self->pause <= TT_OUTPUT_PAUSE);
    for (int32_t p = 1; p < TT_QUANTILES; p++)
        tt_assert(self->quantiles[p] >= self->quantiles[p - 1]);
}

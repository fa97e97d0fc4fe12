#include "base/histogram.h"

#include <stdlib.h>
#include <string.h>

enum { PART_BITS = 7, PARTS = 1 << PART_BITS };

/* Values below 2 * PARTS have a bucket each; above, the leading PART_BITS + 1 bits and the exponent
 * name the bucket. */
static int32_t bucket_of(int64_t value) {
    if (value < 2 * (int64_t)PARTS)
        return (int32_t)value;
    int32_t shift = 63 - __builtin_clzll((uint64_t)value) - PART_BITS;
    return shift * PARTS + (int32_t)(value >> shift);
}

/* The middle of a bucket. */
static int64_t middle_of(int32_t bucket) {
    if (bucket < 2 * PARTS)
        return bucket;
    int32_t shift = bucket / PARTS - 1;
    int64_t low = (int64_t)(bucket - shift * PARTS) << shift;
    return low + ((INT64_C(1) << shift) >> 1);
}

void tt_histogram_init(struct tt_histogram *self) {
    *self = (struct tt_histogram){.minimum = INT64_MAX, .maximum = -1};
}

void tt_histogram_fini(struct tt_histogram *self) {
    free(self->counts);
    tt_histogram_init(self);
}

static void grow(struct tt_histogram *self, int32_t bucket) {
    int32_t capacity = (bucket / PARTS + 2) * PARTS;
    uint64_t *counts = realloc(self->counts, (size_t)capacity * sizeof(*counts));
    if (!counts) {
        self->failed = true;
        return;
    }
    memset(counts + self->capacity, 0, (size_t)(capacity - self->capacity) * sizeof(*counts));
    self->counts = counts;
    self->capacity = capacity;
}

TT_APART static void add_times(struct tt_histogram *self, int32_t bucket, uint64_t times) {
    if (bucket >= self->capacity)
        grow(self, bucket);
    if (self->capacity > 0)
        self->counts[bucket < self->capacity ? bucket : self->capacity - 1] += times;
}

void tt_histogram_add(struct tt_histogram *self, int64_t value) {
    tt_assert(value >= 0);
    self->count++;
    if (__builtin_add_overflow(self->sum, value, &self->sum))
        self->sum = INT64_MAX;
    if (value < self->minimum)
        self->minimum = value;
    if (value > self->maximum)
        self->maximum = value;
    int32_t bucket = bucket_of(value);
    if (__builtin_expect(bucket < self->capacity, 1))
        self->counts[bucket]++;
    else
        add_times(self, bucket, 1);
}

/* All values are in the buckets from the first to the last one; none if the first is behind the
 * last. What is beyond the memory counts in its last bucket. */
struct filled {
    int32_t first, last;
};

static struct filled filled_of(const struct tt_histogram *self) {
    if (self->count == 0 || self->capacity == 0)
        return (struct filled){0, -1};
    int32_t first = bucket_of(self->minimum), last = bucket_of(self->maximum);
    int32_t limit = self->capacity - 1;
    return (struct filled){first < limit ? first : limit, last < limit ? last : limit};
}

void tt_histogram_merge(struct tt_histogram *self, const struct tt_histogram *other) {
    struct filled filled = filled_of(other);
    for (int32_t i = filled.last; i >= filled.first; i--)
        if (other->counts[i])
            add_times(self, i, other->counts[i]);
    self->count += other->count;
    if (__builtin_add_overflow(self->sum, other->sum, &self->sum))
        self->sum = INT64_MAX;
    if (other->minimum < self->minimum)
        self->minimum = other->minimum;
    if (other->maximum > self->maximum)
        self->maximum = other->maximum;
    self->failed = self->failed || other->failed;
}

int64_t tt_histogram_quantile(const struct tt_histogram *self, int64_t numerator,
                              int64_t denominator) {
    tt_assert(denominator > 0);
    tt_assert(numerator >= 0 && numerator <= denominator);
    if (self->count == 0)
        return 0;
    __int128 scaled = (__int128)self->count * numerator;
    int64_t rank = (int64_t)((scaled + denominator - 1) / denominator); /* 1 .. count */
    if (rank < 1)
        rank = 1;
    uint64_t seen = 0;
    int64_t value = self->maximum;
    struct filled filled = filled_of(self);
    for (int32_t i = filled.first; i <= filled.last; i++) {
        seen += self->counts[i];
        if (seen >= (uint64_t)rank) {
            value = middle_of(i);
            break;
        }
    }
    if (value < self->minimum)
        value = self->minimum;
    return value > self->maximum ? self->maximum : value;
}

int64_t tt_histogram_mean(const struct tt_histogram *self) {
    return self->count ? self->sum / self->count : 0;
}

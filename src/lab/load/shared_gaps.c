#include "lab/load/shared_gaps.h"

#include "base/err.h"
#include "base/fnv.h"
#include "lab/scenario/allocate.h"

#include <string.h>
#include <sys/mman.h>

#define PLACE_BYTES (INT64_C(4) << 20) /* pages that are not touched take no memory */

/* A place begins with its head; then come a stream for each model, and their gaps. */
struct head {
    uint64_t key; /* 0: not filled */
    int32_t model_count;
    bool has_requests;
};

struct kept_stream {
    struct tt_prng prng;
    int64_t count;
    int64_t requests;
};

static struct head *head_of(const struct tt_shared_gaps *self, int32_t place) {
    return (struct head *)(void *)(self->memory + place * PLACE_BYTES);
}

static struct kept_stream *streams_of(struct head *head) {
    return (struct kept_stream *)(void *)(head + 1);
}

#define PLACES_BYTES (TT_SHARED_GAPS_PLACES * (int64_t)sizeof(struct tt_shared_place))
#define ALL_BYTES (TT_SHARED_GAPS_PLACES * PLACE_BYTES + PLACES_BYTES)

void tt_shared_gaps_init(struct tt_shared_gaps *self) {
    void *memory = mmap(NULL, ALL_BYTES, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    *self = (struct tt_shared_gaps){0};
    if (memory == MAP_FAILED)
        return;
    self->memory = memory;
    self->places = (void *)(self->memory + TT_SHARED_GAPS_PLACES * PLACE_BYTES);
}

void tt_shared_gaps_fini(struct tt_shared_gaps *self) {
    if (self->memory)
        munmap(self->memory, ALL_BYTES);
    *self = (struct tt_shared_gaps){0};
}

/* The place that is lent to the job; -1: none. */
static int32_t place_of(const struct tt_shared_gaps *self, int32_t job) {
    for (int32_t i = 0; self->memory && i < TT_SHARED_GAPS_PLACES; i++)
        if (tt_shared_word_load(&self->places[i].lent) == (uint64_t)((int64_t)job + 1) &&
            !tt_flag_is_raised(&self->places[i].is_known))
            return i;
    return -1;
}

/* The filled place of that key; NULL: there is none. */
static struct head *find(const struct tt_shared_gaps *self, uint64_t key) {
    for (int32_t i = 0; self->memory && i < TT_SHARED_GAPS_PLACES; i++)
        if (tt_flag_is_raised(&self->places[i].is_known) && head_of(self, i)->key == key)
            return head_of(self, i);
    return NULL;
}

void tt_shared_gaps_lend(struct tt_shared_gaps *self, int32_t job) {
    int32_t place = place_of(self, -1);
    if (place >= 0)
        tt_shared_word_store(&self->places[place].lent, (uint64_t)job + 1);
}

void tt_shared_gaps_settle(struct tt_shared_gaps *self, int32_t job) {
    int32_t place = place_of(self, job);
    if (place < 0)
        return;
    struct head *head = head_of(self, place);
    tt_shared_word_store(&self->places[place].lent, 0);
    if (head->key != 0 && !find(self, head->key))
        tt_flag_raise(&self->places[place].is_known);
    else
        head->key = 0;
}

uint64_t tt_shared_gaps_key(const struct tt_scenario *scenario) {
    const struct tt_scenario *s = scenario;
    const int64_t numbers[] = {(int64_t)s->seed, s->process,    s->shape_ppm,
                               s->request_limit, s->warm_up_ns, s->model_count};
    uint64_t key = tt_fnv_add(TT_FNV_START, numbers, sizeof(numbers));
    for (int32_t m = 0; m < s->model_count; m++) {
        key = tt_fnv_add(key, s->models[m].name, strlen(s->models[m].name) + 1);
        key = tt_fnv_add(key, &s->models[m].weight, sizeof(s->models[m].weight));
    }
    return key ? key : 1;
}

bool tt_shared_gaps_load(const struct tt_shared_gaps *self, uint64_t key,
                         struct tt_kept_gaps *kept) {
    struct head *head = find(self, key);
    if (!head || head->model_count != kept->model_count)
        return false;
    const struct kept_stream *streams = streams_of(head);
    const int64_t *gaps = (const int64_t *)(const void *)(streams + head->model_count);
    if (head->has_requests)
        kept->requests = tt_allocate((size_t)head->model_count, sizeof(*kept->requests));
    for (int32_t m = 0; m < head->model_count; m++) {
        int64_t count = streams[m].count;
        int64_t *copy = tt_allocate((size_t)count + 1, sizeof(*copy));
        memcpy(copy, gaps, (size_t)count * sizeof(*copy));
        gaps += count;
        kept->streams[m] = (struct tt_kept_stream){.gaps = copy,
                                                   .count = count,
                                                   .capacity = count + 1,
                                                   .prng = streams[m].prng,
                                                   .is_begun = true};
        kept->room -= count;
        if (head->has_requests)
            kept->requests[m] = streams[m].requests;
    }
    return true;
}

/* A search that ended before its first run has streams that have not begun. */
static bool fits(const struct tt_kept_gaps *kept) {
    int64_t bytes = (int64_t)sizeof(struct head);
    for (int32_t m = 0; m < kept->model_count; m++) {
        if (!kept->streams[m].is_begun)
            return false;
        bytes += (int64_t)sizeof(struct kept_stream);
        bytes += kept->streams[m].count * (int64_t)sizeof(int64_t);
    }
    return bytes <= PLACE_BYTES;
}

void tt_shared_gaps_store(struct tt_shared_gaps *self, int32_t job, uint64_t key,
                          const struct tt_kept_gaps *kept) {
    int32_t place = place_of(self, job);
    if (place < 0 || !fits(kept))
        return;
    struct head *head = head_of(self, place);
    struct kept_stream *streams = streams_of(head);
    int64_t *gaps = (int64_t *)(void *)(streams + kept->model_count);
    head->model_count = kept->model_count;
    head->has_requests = kept->requests != NULL;
    for (int32_t m = 0; m < kept->model_count; m++) {
        const struct tt_kept_stream *from = &kept->streams[m];
        streams[m] = (struct kept_stream){.prng = from->prng,
                                          .count = from->count,
                                          .requests = kept->requests ? kept->requests[m] : 0};
        memcpy(gaps, from->gaps, (size_t)from->count * sizeof(*gaps));
        gaps += from->count;
    }
    head->key = key; /* last: what a child that dies has not stored does not count */
}

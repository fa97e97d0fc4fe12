#include "base/threads/dirty_set.h"

#include "base/threads/perturb.h"

#include <stdlib.h>

enum tt_err tt_dirty_set_init(struct tt_dirty_set *self, int32_t capacity) {
    tt_assert(capacity >= 1);
    int32_t words = (capacity + 63) / 64, summaries = (words + 63) / 64;
    _Atomic uint64_t *all = calloc((size_t)words + (size_t)summaries, sizeof(*all));
    if (!all)
        return TT_ERR_NO_MEMORY;
    *self = (struct tt_dirty_set){
        .words = all, .summary = all + words, .word_count = words, .summary_count = summaries};
    return TT_OK;
}

void tt_dirty_set_fini(struct tt_dirty_set *self) {
    free((void *)self->words);
    *self = (struct tt_dirty_set){0};
}

void tt_dirty_set_add(struct tt_dirty_set *self, int32_t word, uint64_t bits) {
    tt_assert(word >= 0 && word < self->word_count);
    tt_perturb();
    atomic_fetch_or_explicit(&self->words[word], bits, memory_order_acq_rel);
    tt_perturb();
    /* After the word: a thread that sees the summary finds the word filled, or already taken. */
    atomic_fetch_or_explicit(&self->summary[word / 64], UINT64_C(1) << (word % 64),
                             memory_order_acq_rel);
    tt_perturb();
}

int32_t tt_dirty_set_take(struct tt_dirty_set *self, int32_t *ids) {
    int32_t count = 0;
    for (int32_t s = 0; s < self->summary_count; s++) {
        if (atomic_load_explicit(&self->summary[s], memory_order_relaxed) == 0)
            continue;
        uint64_t filled = atomic_exchange_explicit(&self->summary[s], 0, memory_order_acq_rel);
        for (; filled; filled &= filled - 1) {
            int32_t w = s * 64 + __builtin_ctzll(filled);
            tt_perturb();
            uint64_t bits = atomic_exchange_explicit(&self->words[w], 0, memory_order_acq_rel);
            for (; bits; bits &= bits - 1)
                ids[count++] = w * 64 + __builtin_ctzll(bits);
        }
    }
    return count;
}

bool tt_dirty_set_empty(const struct tt_dirty_set *self) {
    for (int32_t s = 0; s < self->summary_count; s++)
        if (atomic_load_explicit(&self->summary[s], memory_order_acquire) != 0)
            return false;
    return true;
}

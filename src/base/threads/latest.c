#include "base/threads/latest.h"

#include "base/threads/perturb.h"

#include <string.h>

/* Both sides work word by word with release and acquire, which costs nothing on processors with
 * that memory order. A reader that sees a word of a newer value also sees its odd version. */

void tt_latest_write(struct tt_latest *self, const void *value, int32_t bytes) {
    tt_assert(bytes > 0 && bytes <= TT_LATEST_BYTES && bytes % 8 == 0);
    uint64_t version = atomic_load_explicit(&self->version, memory_order_relaxed);
    atomic_store_explicit(&self->version, version + 1, memory_order_relaxed);
    for (int32_t i = 0; i < bytes / 8; i++) {
        uint64_t word;
        memcpy(&word, (const unsigned char *)value + (ptrdiff_t)8 * i, 8);
        tt_perturb();
        atomic_store_explicit(&self->words[i], word, memory_order_release);
    }
    atomic_store_explicit(&self->version, version + 2, memory_order_release);
    tt_perturb();
}

uint64_t tt_latest_take(const struct tt_latest *self, void *out_value, int32_t bytes) {
    uint64_t words[TT_LATEST_WORDS];
    uint64_t version = atomic_load_explicit(&self->version, memory_order_acquire);
    if (version == 0 || (version & 1))
        return 0;
    for (int32_t i = 0; i < bytes / 8; i++) {
        words[i] = atomic_load_explicit(&self->words[i], memory_order_acquire);
        tt_perturb();
    }
    if (atomic_load_explicit(&self->version, memory_order_relaxed) != version)
        return 0;
    memcpy(out_value, words, (size_t)bytes);
    return version;
}

bool tt_latest_read(const struct tt_latest *self, void *out_value, int32_t bytes) {
    return tt_latest_take(self, out_value, bytes) != 0;
}

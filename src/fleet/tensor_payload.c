#include "fleet/tensor_payload.h"

#include "base/threads/shared_word.h"

#include <string.h>

enum { COUNT_BYTES = 8, FIXED_BYTES = 16, DIM_BYTES = 8 };

#define ASKS_WORDS ((uint64_t)1 << 63)

static size_t aligned(size_t bytes) { return (bytes + 7) & ~(size_t)7; }

static size_t head_bytes(int32_t rank) { return FIXED_BYTES + (size_t)rank * DIM_BYTES; }

size_t tt_tensors_bytes(const struct tt_tensor_view *views, int32_t count) {
    size_t sum = COUNT_BYTES;
    for (int32_t i = 0; i < count; i++)
        sum += head_bytes(views[i].shape.rank) + aligned(views[i].size_bytes);
    return sum;
}

void tt_tensors_write(const struct tt_tensor_view *views, int32_t count, uint8_t *out) {
    tt_put_u64(out, (uint64_t)count);
    out += COUNT_BYTES;
    for (int32_t i = 0; i < count; i++) {
        const struct tt_tensor_view *view = &views[i];
        tt_put_u64(out, (uint64_t)view->shape.rank);
        tt_put_u64(out + 8, view->size_bytes);
        out += FIXED_BYTES;
        for (int32_t d = 0; d < view->shape.rank; d++, out += DIM_BYTES)
            tt_put_u64(out, (uint64_t)view->shape.dims[d]);
        size_t padded = aligned(view->size_bytes);
        if (view->size_bytes > 0)
            memcpy(out, view->bytes, view->size_bytes);
        memset(out + view->size_bytes, 0, padded - view->size_bytes);
        out += padded;
    }
}

void tt_tensors_ask_words(uint8_t *payload) {
    tt_put_u64(payload, tt_get_u64(payload) | ASKS_WORDS);
}

bool tt_tensors_asks_words(const uint8_t *payload, size_t length) {
    return length >= COUNT_BYTES && (tt_read_once_u64(payload) & ASKS_WORDS) != 0;
}

static enum tt_err too_short(struct tt_error *why) {
    return tt_fail(TT_ERR_INVALID, why, "a payload ends within a tensor");
}

static enum tt_err read_one(const uint8_t **at, const uint8_t *end, struct tt_tensor_view *out,
                            struct tt_error *why) {
    if (end - *at < FIXED_BYTES)
        return too_short(why);
    uint64_t rank = tt_read_once_u64(*at), bytes = tt_read_once_u64(*at + 8);
    *at += FIXED_BYTES;
    if (rank > TT_MAX_RANK)
        return tt_fail(TT_ERR_INVALID, why, "a tensor of a payload has rank %llu; at most %d",
                       (unsigned long long)rank, TT_MAX_RANK);
    if ((uint64_t)(end - *at) < rank * DIM_BYTES)
        return too_short(why);
    *out = (struct tt_tensor_view){.shape.rank = (int32_t)rank};
    for (uint64_t d = 0; d < rank; d++, *at += DIM_BYTES) {
        out->shape.dims[d] = (int64_t)tt_read_once_u64(*at);
        if (out->shape.dims[d] < 0)
            return tt_fail(TT_ERR_INVALID, why, "a tensor of a payload has a negative dimension");
    }
    if (bytes > (uint64_t)(end - *at) || aligned((size_t)bytes) > (size_t)(end - *at))
        return too_short(why);
    out->bytes = *at;
    out->size_bytes = (size_t)bytes;
    *at += aligned((size_t)bytes);
    return TT_OK;
}

enum tt_err tt_tensors_read(const uint8_t *bytes, size_t length, int32_t count,
                            struct tt_tensor_view *out_views, struct tt_error *why) {
    const uint8_t *at = bytes, *end = bytes + length;
    if (length < COUNT_BYTES)
        return too_short(why);
    uint64_t there = tt_read_once_u64(at) & ~ASKS_WORDS;
    if (there != (uint64_t)count)
        return tt_fail(TT_ERR_INVALID, why, "a payload has %llu tensors; expected were %d",
                       (unsigned long long)there, (int)count);
    at += COUNT_BYTES;
    for (int32_t i = 0; i < count; i++) {
        enum tt_err err = read_one(&at, end, &out_views[i], why);
        if (err)
            return err;
    }
    return at == end ? TT_OK
                     : tt_fail(TT_ERR_INVALID, why, "a payload has %lld bytes behind its tensors",
                               (long long)(end - at));
}

void tt_result_head_write(enum tt_err err, uint8_t *out) { tt_put_u64(out, (uint64_t)-err); }

enum tt_err tt_result_head_read(const uint8_t *bytes, size_t length, enum tt_err *out_err,
                                struct tt_error *why) {
    if (length < TT_RESULT_HEAD_BYTES)
        return too_short(why);
    uint64_t number = tt_read_once_u64(bytes);
    if (number > (uint64_t)-TT_ERR_INTERNAL)
        return tt_fail(TT_ERR_INVALID, why, "a result has the unknown error %llu",
                       (unsigned long long)number);
    *out_err = (enum tt_err) - (int32_t)number;
    return TT_OK;
}

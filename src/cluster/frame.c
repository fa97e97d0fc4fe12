#include "cluster/frame.h"

#include "base/instant.h"

/* How many records a frame of each type may have. */
static const struct {
    const char *name;
    int32_t min, max;
} types[TT_FRAME_TYPES] = {
    [TT_FRAME_TICKET] = {"TICKET", 1, TT_FRAME_MAX_RECORDS},
    [TT_FRAME_CANCEL] = {"CANCEL", 1, TT_FRAME_MAX_RECORDS},
    [TT_FRAME_GRANT] = {"GRANT", 2, TT_FRAME_MAX_RECORDS},
    [TT_FRAME_ACCEPTED] = {"ACCEPTED", 1, TT_FRAME_MAX_RECORDS},
    [TT_FRAME_FETCH] = {"FETCH", 1, TT_FRAME_MAX_RECORDS},
    [TT_FRAME_INPUT] = {"INPUT", 1, TT_FRAME_MAX_RECORDS},
    [TT_FRAME_RESULT] = {"RESULT", 1, TT_FRAME_MAX_RECORDS},
    [TT_FRAME_DONE] = {"DONE", 1, TT_FRAME_MAX_RECORDS},
    [TT_FRAME_MISSING] = {"MISSING", 1, TT_FRAME_MAX_RECORDS},
    [TT_FRAME_RETURN] = {"RETURN", 1, TT_FRAME_MAX_RECORDS},
    [TT_FRAME_DROP] = {"DROP", 1, TT_FRAME_MAX_RECORDS},
    [TT_FRAME_CLAIM] = {"CLAIM", 0, 0},
    [TT_FRAME_STATE] = {"STATE", 0, TT_FRAME_MAX_RECORDS},
    [TT_FRAME_STALE] = {"STALE", 0, 0},
    [TT_FRAME_BEAT] = {"BEAT", 0, 0},
    [TT_FRAME_ASK] = {"ASK", 0, 0},
    [TT_FRAME_RESIGN] = {"RESIGN", 0, 0},
    [TT_FRAME_OPINION] = {"OPINION", 1, 1},
};

const char *tt_frame_type_name(enum tt_frame_type type) { return types[type].name; }

static uint8_t *put(uint8_t *at, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> (8 * i));
    return at + bytes;
}

static uint64_t get(const uint8_t **at, int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)(*at)[i] << (8 * i);
    *at += bytes;
    return value;
}

void tt_frame_write(const struct tt_frame *frame, uint8_t *out_bytes) {
    tt_assert(frame->count >= types[frame->type].min && frame->count <= types[frame->type].max);
    uint8_t *at = put(out_bytes, tt_frame_bytes(frame->count), 4);
    at = put(at, (uint64_t)frame->type, 2);
    at = put(at, (uint64_t)frame->count, 2);
    at = put(at, frame->epoch, 8);
    for (int32_t i = 0; i < frame->count; i++) {
        const struct tt_frame_record *record = &frame->records[i];
        at = put(at, record->id, 8);
        at = put(at, (uint64_t)record->duration_ns, 8);
        at = put(at, record->length, 4);
        at = put(at, record->model, 2);
        at = put(at, record->rows, 2);
        at = put(at, record->node, 2);
        at = put(at, record->attempt, 2);
        at = put(at, record->device, 2);
        at = put(at, record->code, 2);
    }
}

enum tt_err tt_frame_read(const uint8_t *bytes, size_t length, struct tt_frame_record *records,
                          struct tt_frame *out_frame, size_t *out_used, struct tt_error *why) {
    *out_used = 0;
    if (length < TT_FRAME_HEAD_BYTES)
        return TT_OK;
    const uint8_t *at = bytes;
    uint64_t total = get(&at, 4), type = get(&at, 2), count = get(&at, 2), epoch = get(&at, 8);
    if (type == 0 || type >= TT_FRAME_TYPES)
        return tt_fail(TT_ERR_INVALID, why, "a frame has type %d; types are 1 to %d", (int)type,
                       TT_FRAME_TYPES - 1);
    if ((int64_t)count < types[type].min || (int64_t)count > types[type].max)
        return tt_fail(TT_ERR_INVALID, why, "a frame %s has %d records; it may have %d to %d",
                       types[type].name, (int)count, (int)types[type].min, (int)types[type].max);
    if (total != tt_frame_bytes((int32_t)count))
        return tt_fail(
            TT_ERR_INVALID, why, "a frame %s of %d records claims %d bytes; it would have %d",
            types[type].name, (int)count, (int)total, (int)tt_frame_bytes((int32_t)count));
    if (length < total)
        return TT_OK;
    for (uint64_t i = 0; i < count; i++) {
        struct tt_frame_record *record = &records[i];
        record->id = get(&at, 8);
        record->duration_ns = (int64_t)get(&at, 8);
        record->length = (uint32_t)get(&at, 4);
        record->model = (uint16_t)get(&at, 2);
        record->rows = (uint16_t)get(&at, 2);
        record->node = (uint16_t)get(&at, 2);
        record->attempt = (uint16_t)get(&at, 2);
        record->device = (uint16_t)get(&at, 2);
        record->code = (uint16_t)get(&at, 2);
        if (record->duration_ns < 0)
            return tt_fail(TT_ERR_INVALID, why, "a frame %s has a negative duration, %lld ns",
                           types[type].name, (long long)record->duration_ns);
    }
    *out_frame = (struct tt_frame){.type = (enum tt_frame_type)type,
                                   .count = (int32_t)count,
                                   .epoch = epoch,
                                   .records = records};
    *out_used = (size_t)total;
    return TT_OK;
}

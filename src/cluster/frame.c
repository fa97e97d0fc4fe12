#include "cluster/frame.h"

#include "base/varint.h"

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
    [TT_FRAME_LEAVE] = {"LEAVE", 0, 0},
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
    [TT_FRAME_WISH] = {"WISH", 1, TT_FRAME_MAX_RECORDS},
    [TT_FRAME_SERVE] = {"SERVE", 1, TT_FRAME_MAX_RECORDS},
    [TT_FRAME_SERVED] = {"SERVED", 1, TT_FRAME_MAX_RECORDS},
    [TT_FRAME_WISHED] = {"WISHED", 1, 1},
    [TT_FRAME_REMOTE] = {"REMOTE", 1, 1},
    [TT_FRAME_MODEL] = {"MODEL", 1, 1},
    [TT_FRAME_WORDS] = {"WORDS", 1, TT_FRAME_MAX_RECORDS},
};

/* Two fields of 16 bits are one of 32: the first is the lower half. */
static uint32_t pair(uint16_t first, uint16_t second) { return first | (uint32_t)second << 16; }

static void write_record(const struct tt_frame_record *record, uint8_t *out) {
    tt_put_u64(out, record->id);
    tt_put_u64(out + 8, (uint64_t)record->duration_ns);
    tt_put_u32(out + 16, record->length);
    tt_put_u32(out + 20, pair(record->model, record->rows));
    tt_put_u32(out + 24, pair(record->node, record->attempt));
    tt_put_u32(out + 28, pair(record->device, record->code));
}

static struct tt_frame_record read_record(const uint8_t *from) {
    uint32_t what = tt_get_u32(from + 20), whose = tt_get_u32(from + 24);
    uint32_t where = tt_get_u32(from + 28);
    return (struct tt_frame_record){.id = tt_get_u64(from),
                                    .duration_ns = (int64_t)tt_get_u64(from + 8),
                                    .length = tt_get_u32(from + 16),
                                    .model = (uint16_t)what,
                                    .rows = (uint16_t)(what >> 16),
                                    .node = (uint16_t)whose,
                                    .attempt = (uint16_t)(whose >> 16),
                                    .device = (uint16_t)where,
                                    .code = (uint16_t)(where >> 16)};
}

void tt_frame_write(const struct tt_frame *frame, uint8_t *out_bytes) {
    tt_assert(frame->count >= types[frame->type].min && frame->count <= types[frame->type].max);
    tt_put_u32(out_bytes, (uint32_t)tt_frame_bytes(frame->count));
    tt_put_u32(out_bytes + 4, pair((uint16_t)frame->type, (uint16_t)frame->count));
    tt_put_u64(out_bytes + 8, frame->epoch);
    for (int32_t i = 0; i < frame->count; i++)
        write_record(&frame->records[i], out_bytes + tt_frame_bytes(i));
}

enum tt_err tt_frame_read(const uint8_t *bytes, size_t length, struct tt_frame_record *records,
                          struct tt_frame *out_frame, size_t *out_used, struct tt_error *why) {
    *out_used = 0;
    if (length < TT_FRAME_HEAD_BYTES)
        return TT_OK;
    uint64_t total = tt_get_u32(bytes), epoch = tt_get_u64(bytes + 8);
    uint32_t kind = tt_get_u32(bytes + 4), type = kind & 0xffff, count = kind >> 16;
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
    for (uint32_t i = 0; i < count; i++) {
        records[i] = read_record(bytes + tt_frame_bytes((int32_t)i));
        if (records[i].duration_ns < 0)
            return tt_fail(TT_ERR_INVALID, why, "a frame %s has a negative duration, %lld ns",
                           types[type].name, (long long)records[i].duration_ns);
    }
    *out_frame = (struct tt_frame){.type = (enum tt_frame_type)type,
                                   .count = (int32_t)count,
                                   .epoch = epoch,
                                   .records = records};
    *out_used = (size_t)total;
    return TT_OK;
}

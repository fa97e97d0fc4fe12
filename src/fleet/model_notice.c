#include "fleet/model_notice.h"

#include "base/varint.h"
#include "cluster/cluster.h"

#include <stdlib.h>
#include <string.h>

enum { HEAD_BYTES = 28, CELL_BYTES = 12, MEMORY_BYTES = 16, MAX_LENGTHS = 4096 };

static int64_t cells_of(const struct tt_profile *profile) {
    return (int64_t)profile->length_count * (profile->max_batch + 1);
}

static bool has_memory(const struct tt_profile *profile) {
    return profile->static_bytes > 0 || profile->dynamic_bytes > 0;
}

size_t tt_model_notice_bytes(const struct tt_model_notice *self) {
    return HEAD_BYTES + strlen(self->name) + strlen(self->version) +
           4 * (size_t)self->profile->length_count + CELL_BYTES * (size_t)cells_of(self->profile) +
           (has_memory(self->profile) ? MEMORY_BYTES : 0);
}

struct tt_frame_record tt_model_notice_record(const struct tt_model_notice *self) {
    return (struct tt_frame_record){.id = self->digest,
                                    .duration_ns = self->slo_ns,
                                    .length = (uint32_t)tt_model_notice_bytes(self),
                                    .model = self->number,
                                    .rows = (uint16_t)self->max_batch,
                                    .code = self->is_served};
}

static uint8_t *put_text(uint8_t *to, const char *text, size_t length) {
    memcpy(to, text, length);
    return to + length;
}

void tt_model_notice_write(const struct tt_model_notice *self, uint8_t *out) {
    const struct tt_profile *profile = self->profile;
    size_t name = strlen(self->name), version = strlen(self->version);
    int64_t cells = cells_of(profile);
    tt_put_u32(out, (uint32_t)(name | version << 16));
    tt_put_u32(out + 4, (uint32_t)profile->max_batch);
    tt_put_u32(out + 8, (uint32_t)profile->length_count);
    tt_put_u64(out + 12, (uint64_t)profile->alpha_ns);
    tt_put_u64(out + 20, (uint64_t)profile->beta_ns);
    out = put_text(put_text(out + HEAD_BYTES, self->name, name), self->version, version);
    for (int32_t i = 0; i < profile->length_count; i++, out += 4)
        tt_put_u32(out, (uint32_t)profile->lengths[i]);
    for (int64_t i = 0; i < cells; i++, out += 8)
        tt_put_u64(out, (uint64_t)profile->latency_ns[i]);
    for (int64_t i = 0; i < cells; i++, out += 4)
        tt_put_u32(out, (uint32_t)profile->demand_ppm[i]);
    if (has_memory(profile)) {
        tt_put_u64(out, (uint64_t)profile->static_bytes);
        tt_put_u64(out + 8, (uint64_t)profile->dynamic_bytes);
    }
}

bool tt_model_notice_is_text(const uint8_t *bytes, size_t length) {
    if (length == 0 || length >= TT_MODEL_NOTICE_TEXT_BYTES || bytes[0] == '.')
        return false;
    for (size_t i = 0; i < length; i++)
        if (bytes[i] < ' ' || bytes[i] == 0x7f || bytes[i] == '/')
            return false;
    return true;
}

static enum tt_err read_profile(const uint8_t *head, const uint8_t *at, bool with_memory,
                                struct tt_profile **out, struct tt_error *why) {
    struct tt_profile table = {.max_batch = (int32_t)tt_get_u32(head + 4),
                               .length_count = (int32_t)tt_get_u32(head + 8),
                               .alpha_ns = (int64_t)tt_get_u64(head + 12),
                               .beta_ns = (int64_t)tt_get_u64(head + 20)};
    size_t cells = (size_t)cells_of(&table), lengths = (size_t)table.length_count;
    table.lengths = calloc(lengths, sizeof(*table.lengths));
    table.latency_ns = calloc(cells, sizeof(*table.latency_ns));
    table.demand_ppm = calloc(cells, sizeof(*table.demand_ppm));
    enum tt_err err = TT_ERR_NO_MEMORY;
    if (table.lengths && table.latency_ns && table.demand_ppm) {
        for (size_t i = 0; i < lengths; i++, at += 4)
            table.lengths[i] = (int32_t)tt_get_u32(at);
        for (size_t i = 0; i < cells; i++, at += 8)
            table.latency_ns[i] = (int64_t)tt_get_u64(at);
        for (size_t i = 0; i < cells; i++, at += 4)
            table.demand_ppm[i] = (int32_t)tt_get_u32(at);
        if (with_memory) {
            table.static_bytes = (int64_t)tt_get_u64(at);
            table.dynamic_bytes = (int64_t)tt_get_u64(at + 8);
        }
        err = TT_OK;
        for (size_t i = 0; i < cells; i += (size_t)table.max_batch + 1)
            if (table.latency_ns[i] != 0)
                err = tt_fail(TT_ERR_INVALID, why, "a profile's batch of no rows takes time");
        if (!err)
            err = tt_profile_new_table(&table, out, why);
    } else {
        tt_fail(err, why, "out of memory for the profile of a model");
    }
    free(table.lengths);
    free(table.latency_ns);
    free(table.demand_ppm);
    return err;
}

enum tt_err tt_model_notice_read(const struct tt_frame_record *record, const uint8_t *payload,
                                 size_t length, struct tt_model_notice *out_notice,
                                 struct tt_error *why) {
    if (length < HEAD_BYTES)
        return tt_fail(TT_ERR_INVALID, why, "a notice of a model has %d bytes; at least %d",
                       (int)length, HEAD_BYTES);
    size_t name = tt_get_u32(payload) & 0xffff, version = tt_get_u32(payload) >> 16;
    uint64_t batch = tt_get_u32(payload + 4), lengths = tt_get_u32(payload + 8);
    uint64_t least = HEAD_BYTES + name + version + 4 * lengths + CELL_BYTES * lengths * (batch + 1);
    if (batch < 1 || batch > TT_PROFILE_MAX_BATCH || lengths < 1 || lengths > MAX_LENGTHS ||
        (length != least && length != least + MEMORY_BYTES))
        return tt_fail(TT_ERR_INVALID, why,
                       "a notice of a model has %d bytes, which its profile of %d rows and %d "
                       "lengths does not have",
                       (int)length, (int)batch, (int)lengths);
    const uint8_t *texts = payload + HEAD_BYTES;
    if (!tt_model_notice_is_text(texts, name) || !tt_model_notice_is_text(texts + name, version))
        return tt_fail(TT_ERR_INVALID, why,
                       "a notice of a model has no name, or one that no "
                       "repository can have");
    if (record->rows < 1 || record->rows > batch || record->code > 1 || record->duration_ns == 0 ||
        record->model >= TT_CLUSTER_MAX_MODELS)
        return tt_fail(TT_ERR_INVALID, why,
                       "a notice of model '%.*s' has a batch size, an objective or a number that "
                       "no model has",
                       (int)name, (const char *)texts);
    struct tt_model_notice notice = {.number = record->model,
                                     .digest = record->id,
                                     .slo_ns = record->duration_ns,
                                     .max_batch = record->rows,
                                     .is_served = record->code == 1};
    memcpy(notice.name, texts, name);
    memcpy(notice.version, texts + name, version);
    enum tt_err err =
        read_profile(payload, texts + name + version, length > least, &notice.profile, why);
    if (!err)
        *out_notice = notice;
    return err;
}

void tt_model_notice_fini(struct tt_model_notice *self) {
    tt_profile_free(self->profile);
    self->profile = NULL;
}

#include "fleet/load_reasons.h"

#include "base/log/log.h"

void tt_load_reasons_init(struct tt_load_reasons *self, struct tt_fleet_node *node) {
    *self = (struct tt_load_reasons){.node = node};
    tt_text_init(&self->wish);
    tt_text_init(&self->plan);
}

void tt_load_reasons_fini(struct tt_load_reasons *self) {
    tt_text_fini(&self->wish);
    tt_text_fini(&self->plan);
}

/* The reasons that were noted for another wish are of no use. */
static void note_about(struct tt_load_reasons *self, const struct tt_model_wish *wish) {
    if (self->number.number != wish->number || self->number.frontend != wish->frontend)
        tt_text_clear(&self->wish);
    self->number = *wish;
}

const char *tt_load_reasons_of_wish(struct tt_load_reasons *self,
                                    const struct tt_model_wish *wish) {
    note_about(self, wish);
    return tt_text_string(&self->wish);
}

static int32_t length_of(const struct tt_frame_record *record) {
    return record->length < TT_LOAD_REASON_BYTES ? (int32_t)record->length : TT_LOAD_REASON_BYTES;
}

/* The last frame counts, and its first reason. */
static void note_of_plan(struct tt_load_reasons *self, const struct tt_received *received) {
    const char *at = (const char *)received->payload;
    tt_text_clear(&self->plan);
    for (int32_t i = 0; i < received->frame.count; i++) {
        const struct tt_frame_record *record = &received->frame.records[i];
        if (record->length > 0 && self->plan.length == 0)
            tt_text_printf(&self->plan, "%.*s", length_of(record), at);
        at += record->length;
    }
}

/* What a node that joined cannot serve. */
static void log_all(const struct tt_load_reasons *self, uint16_t from,
                    const struct tt_received *received) {
    const char *at = (const char *)received->payload;
    for (int32_t i = 0; i < received->frame.count; i++) {
        const struct tt_frame_record *record = &received->frame.records[i];
        if (i > 0 && record->model < tt_fleet_node_settings(self->node)->model_count)
            tt_log_limited(tt_fleet_node_options(self->node)->log, TT_LOG_WARNING, NULL,
                           "cluster: node %s does not serve model %s: %.*s",
                           tt_fleet_node_name(self->node, from),
                           tt_fleet_node_models(self->node)->models[record->model].name,
                           length_of(record), at);
        at += record->length;
    }
}

void tt_load_reasons_note(struct tt_load_reasons *self, const struct tt_model_set *set,
                          uint16_t from, const struct tt_received *received) {
    const char *at = (const char *)received->payload;
    if (tt_placement_is_open(&set->placement))
        note_of_plan(self, received);
    if (set->stage == TT_MODEL_STAGE_NONE) {
        log_all(self, from, received);
        return;
    }
    const struct tt_model_wish *wish = &set->wishes[set->first_wish];
    note_about(self, wish);
    for (int32_t i = 0; i < received->frame.count; i++) {
        const struct tt_frame_record *record = &received->frame.records[i];
        if (i > 0 && record->id == set->awaited[from] && record->model == wish->model)
            tt_text_printf(&self->wish, "%s%s: %.*s", self->wish.length ? "; " : "",
                           tt_fleet_node_name(self->node, from), length_of(record), at);
        at += record->length;
    }
}

#include "fleet/model_exchange.h"

#include "base/log/log.h"
#include "fleet/model_notice.h"

enum tt_err tt_model_exchange_init(struct tt_model_exchange *self,
                                   const struct tt_model_exchange_options *options) {
    *self = (struct tt_model_exchange){.options = *options};
    return tt_model_numbers_init(&self->numbers, options->file->count);
}

void tt_model_exchange_fini(struct tt_model_exchange *self) {
    tt_model_numbers_fini(&self->numbers);
}

static enum tt_cluster_role role_of(const struct tt_model_exchange *self, uint16_t node) {
    return self->options.file->places[node].role;
}

static const char *name_of(const struct tt_model_exchange *self, uint16_t node) {
    return self->options.file->places[node].name;
}

static bool concerns(const struct tt_model_exchange *self, uint16_t peer) {
    return role_of(self, self->options.number) == TT_ROLE_SCHEDULER ||
           role_of(self, peer) == TT_ROLE_SCHEDULER;
}

/* ---- sending ---- */

static void send_notice(struct tt_model_exchange *self, uint16_t peer, int32_t model) {
    struct tt_model_notice notice;
    tt_fleet_models_notice(self->options.models, model, &notice);
    const struct tt_frame_record record = tt_model_notice_record(&notice);
    const struct tt_frame frame = {.type = TT_FRAME_MODEL, .count = 1, .records = &record};
    uint8_t *out = tt_node_links_send(self->options.links, peer, &frame, record.length);
    if (out)
        tt_model_notice_write(&notice, out);
}

static void send_to_all(struct tt_model_exchange *self, int32_t model) {
    for (int32_t i = 0; i < self->options.file->count; i++)
        if (i != self->options.number && concerns(self, (uint16_t)i) &&
            tt_node_links_is_up(self->options.links, (uint16_t)i))
            send_notice(self, (uint16_t)i, model);
}

void tt_model_exchange_link(struct tt_model_exchange *self, uint16_t peer, bool is_up) {
    tt_model_numbers_forget(&self->numbers, peer);
    if (!concerns(self, peer))
        return;
    for (int32_t i = 0; i < self->options.models->count; i++)
        self->options.held(self->options.context, i, peer, !is_up); /* its notices follow */
    for (int32_t i = 0; is_up && i < self->options.models->count; i++)
        send_notice(self, peer, i);
}

/* ---- models that come ---- */

static void warn_of_rival(struct tt_model_exchange *self, int32_t model, uint16_t peer) {
    const struct tt_fleet_models *models = self->options.models;
    int32_t rival = tt_fleet_models_rival(models, model);
    const char *origin = models->models[rival].origin;
    tt_log_write(self->options.log, TT_LOG_WARNING, NULL,
                 "cluster: model '%s' of node %s has other versions, inputs, outputs or limits "
                 "than that of node %s; only one of them serves at a time",
                 models->models[model].name,
                 name_of(self, peer == TT_CLUSTER_NO_NODE ? self->options.number : peer),
                 origin ? origin : name_of(self, self->options.number));
}

/* Models of the table that the settings do not have yet have come. */
static void report_new(struct tt_model_exchange *self, uint16_t peer, bool is_served) {
    struct tt_cluster_settings *settings = self->options.settings;
    while (settings->model_count < self->options.models->count) {
        int32_t model = settings->model_count++;
        bool has_rival = tt_fleet_models_rival(self->options.models, model) >= 0;
        if (has_rival)
            warn_of_rival(self, model, peer);
        self->options.came(self->options.context, model, peer, is_served && !has_rival);
        send_to_all(self, model); /* also to the peer: it gets to know this number */
    }
}

static void report_pace(struct tt_model_exchange *self, int32_t model, uint16_t peer,
                        const struct tt_model_notice *notice) {
    if (role_of(self, peer) == TT_ROLE_BACKEND && notice->is_served)
        self->options.paced(self->options.context, model, peer, notice);
}

void tt_model_exchange_receive(struct tt_model_exchange *self, uint16_t peer,
                               const struct tt_received *received) {
    struct tt_fleet_models *models = self->options.models;
    const struct tt_frame_record *record = &received->frame.records[0];
    struct tt_model_notice notice;
    struct tt_error why;
    int32_t number;
    if (!concerns(self, peer))
        return;
    enum tt_err err =
        tt_model_notice_read(record, received->payload, record->length, &notice, &why);
    bool is_read = err == TT_OK;
    if (is_read)
        err = tt_fleet_models_learn(models, &notice, name_of(self, peer), &number, &why);
    if (!err && tt_model_numbers_set(&self->numbers, peer, record->model, (uint16_t)number))
        err = tt_fail(TT_ERR_NO_MEMORY, &why, "out of memory");
    if (err) {
        self->refused++;
        tt_log_limited(self->options.log, TT_LOG_WARNING, NULL,
                       "cluster: a model of node %s is not known here: %s", name_of(self, peer),
                       why.text);
    }
    bool is_served = record->code == 1 && role_of(self, peer) != TT_ROLE_SCHEDULER;
    report_new(self, peer, is_served);
    if (!err)
        self->options.held(self->options.context, number, peer, is_served);
    if (!err)
        report_pace(self, number, peer, &notice);
    if (is_read)
        tt_model_notice_fini(&notice);
}

void tt_model_exchange_changed(struct tt_model_exchange *self, int32_t group) {
    struct tt_fleet_models *models = self->options.models;
    int32_t known = self->options.settings->model_count;
    report_new(self, TT_CLUSTER_NO_NODE, false);
    for (int32_t i = group; i < known; i++)
        if (models->groups[i] == group)
            send_to_all(self, i);
}

void tt_model_exchange_translate(struct tt_model_exchange *self, uint16_t peer,
                                 struct tt_frame *frame) {
    tt_model_numbers_translate(&self->numbers, peer, self->options.settings->model_count,
                               self->options.links->records, frame);
}

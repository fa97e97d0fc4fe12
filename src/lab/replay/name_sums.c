#include "lab/replay/name_sums.h"

#include "base/instant.h"
#include "lab/report/report.h"
#include "lab/scenario/allocate.h"

#include <stdlib.h>
#include <string.h>

static struct tt_name_sum *find(struct tt_name_sums *self, const char *name) {
    for (int32_t i = 0; i < self->count; i++)
        if (strcmp(self->items[i].name, name) == 0)
            return &self->items[i];
    self->items = tt_reallocate(self->items, (size_t)self->count + 1, sizeof(*self->items));
    struct tt_name_sum *sum = &self->items[self->count++];
    *sum = (struct tt_name_sum){.name = tt_copy_text(name)};
    tt_measure_model_init(&sum->figures);
    return sum;
}

void tt_name_sums_add(struct tt_name_sums *self, const struct tt_replay *replay) {
    if (replay->arrival_count > 0) {
        bool is_first = self->to_at == 0;
        self->from_at = is_first ? replay->base_at : tt_instant_min(self->from_at, replay->base_at);
        self->to_at = tt_instant_max(self->to_at, replay->last_at);
    }
    for (int32_t m = 0; m < replay->model_count; m++) {
        struct tt_name_sum *sum = find(self, replay->models[m]->name);
        tt_measure_model_add(&sum->figures, &replay->measure.models[m]);
        sum->loads++;
        self->loads++;
    }
}

void tt_name_sums_fini(struct tt_name_sums *self) {
    for (int32_t i = 0; i < self->count; i++) {
        free(self->items[i].name);
        tt_measure_model_fini(&self->items[i].figures);
    }
    free(self->items);
    *self = (struct tt_name_sums){0};
}

static double window_s(const struct tt_name_sums *self) {
    return (double)tt_instant_max(self->to_at - self->from_at, 1) / 1e9;
}

json_t *tt_name_sums_json(const struct tt_name_sums *self) {
    json_t *out = json_array();
    for (int32_t i = 0; i < self->count; i++) {
        json_t *row = tt_report_figures_json(&self->items[i].figures, window_s(self));
        json_object_set_new(row, "name", json_string(self->items[i].name));
        json_object_set_new(row, "loads", json_integer(self->items[i].loads));
        json_array_append_new(out, row);
    }
    return out;
}

void tt_name_sums_table(const struct tt_name_sums *self, struct tt_text *out) {
    if (self->loads == self->count)
        return;
    int width = (int)strlen("model");
    for (int32_t i = 0; i < self->count; i++) {
        int length = (int)strlen(self->items[i].name);
        width = length > width ? length : width;
    }
    tt_text_printf(out, "\nrecorded of all loads\n%-*s %6s %9s %9s %7s %8s %8s %8s\n", width,
                   "model", "loads", "arrived", "good/s", "late", "bad %", "p50 ms", "p99 ms");
    for (int32_t i = 0; i < self->count; i++) {
        const struct tt_measure_model *model = &self->items[i].figures;
        tt_text_printf(out, "%-*s %6d %9lld %9.1f %7lld %8.3f %8.2f %8.2f\n", width,
                       self->items[i].name, self->items[i].loads, (long long)model->arrived,
                       (double)model->ok / window_s(self), (long long)model->late,
                       100 * tt_measure_bad_rate(model),
                       (double)tt_histogram_quantile(&model->latency_ns, 1, 2) / 1e6,
                       (double)tt_histogram_quantile(&model->latency_ns, 99, 100) / 1e6);
    }
}

#include "core/slot_quota.h"

int32_t tt_mechanism_slot_room(const struct tt_mechanism *self, int32_t model, int32_t rows) {
    int32_t slots = self->models[model]->slots, kept = self->kept_rows[model];
    if (slots == 0)
        return INT32_MAX;
    return kept == 0 && rows > slots ? rows : slots > kept ? slots - kept : 0;
}

int32_t tt_mechanism_slots_lacking(const struct tt_task *task) {
    int32_t rows = 0;
    for (int32_t i = 0; i < task->count; i++)
        rows += task->items[i].request->keeps_slots ? 0 : task->items[i].request->rows;
    return rows;
}

void tt_slot_quota_take(struct tt_mechanism *self, const struct tt_task *task) {
    const struct tt_step_model *model = self->models[task->model];
    if (model->slots == 0 || task->items[0].subgraph)
        return;
    int32_t lacking = tt_mechanism_slots_lacking(task), kept = self->kept_rows[task->model];
    bool alone = kept == 0 && task->count == 1;
    tt_assert(lacking == 0 || alone || lacking <= model->slots - kept);
    for (int32_t i = 0; i < task->count; i++)
        task->items[i].request->keeps_slots = true;
    self->kept_rows[task->model] += lacking;
}

#include "core/backlog.h"

#include "base/instant.h"

#include <stdlib.h>

enum { LINES = TT_QUEUE_MAX_LEVELS + 1 };

enum tt_err tt_backlog_init(struct tt_backlog *self, int32_t models) {
    self->lines = calloc((size_t)models * LINES, sizeof(*self->lines));
    self->row_ns = calloc((size_t)models, sizeof(*self->row_ns));
    self->believed_row_ns = calloc((size_t)models, sizeof(*self->believed_row_ns));
    return self->lines && self->row_ns && self->believed_row_ns ? TT_OK : TT_ERR_NO_MEMORY;
}

void tt_backlog_fini(struct tt_backlog *self) {
    free(self->lines);
    free(self->row_ns);
    free(self->believed_row_ns);
    *self = (struct tt_backlog){0};
}

/* Of the shortest length; alone: of one row. */
static int64_t cheapest_row(const struct tt_backlog *self, const struct tt_step_model *step_model) {
    int64_t least_ns = TT_NEVER;
    const struct tt_profile *whole = step_model->whole;
    for (int32_t b = 1; b <= (self->alone ? 1 : step_model->max_batch); b++)
        least_ns = tt_instant_min(least_ns, whole->latency_ns[b] / b);
    return least_ns;
}

void tt_backlog_add_model(struct tt_backlog *self, int32_t model,
                          const struct tt_step_model *step_model) {
    self->row_ns[model] = step_model->step_count == 1 ? cheapest_row(self, step_model) : 0;
    self->believed_row_ns[model] = self->row_ns[model];
}

void tt_backlog_believe(struct tt_backlog *self, int32_t model,
                        const struct tt_step_model *believed,
                        const struct tt_step_model *step_model) {
    if (self->row_ns[model] == 0)
        return;
    /* A quotient, so that what waits already need not be counted again. */
    int64_t now_ns = cheapest_row(self, believed), then_ns = cheapest_row(self, step_model);
    self->believed_row_ns[model] = then_ns > 0
                                       ? (int64_t)((__int128)self->row_ns[model] * now_ns / then_ns)
                                       : self->row_ns[model];
}

static struct tt_backlog_line *line_of(const struct tt_backlog *self,
                                       const struct tt_request *request) {
    return &self->lines[(ptrdiff_t)request->model * LINES + request->priority];
}

static int64_t work_of(const struct tt_backlog *self, const struct tt_step_model *step_model,
                       const struct tt_request *request) {
    int64_t row_ns = self->row_ns[request->model];
    if (self->alone && row_ns > 0)
        return tt_profile_latency(step_model->whole, request->rows, request->length);
    return row_ns * request->rows;
}

void tt_backlog_begin(struct tt_backlog *self, const struct tt_step_model *step_model,
                      const struct tt_request *request) {
    struct tt_backlog_line *line = line_of(self, request);
    if (line->count == 0)
        *line = (struct tt_backlog_line){.last_due_at = request->deadline_at,
                                         .length = request->length};
    line->last_due_at = tt_instant_max(line->last_due_at, request->deadline_at);
    line->mixed |= request->length != line->length;
    line->count++;
    line->work_ns += work_of(self, step_model, request);
}

void tt_backlog_end(struct tt_backlog *self, const struct tt_step_model *step_model,
                    const struct tt_request *request) {
    struct tt_backlog_line *line = line_of(self, request);
    line->count--;
    line->work_ns -= work_of(self, step_model, request);
    tt_assert(line->count >= 0);
    tt_assert(line->work_ns >= 0);
}

int64_t tt_backlog_ahead(const struct tt_backlog *self, const struct tt_request *request,
                         int32_t executors) {
    const struct tt_backlog_line *line = line_of(self, request);
    if (line->count == 0 || line->mixed || request->length != line->length ||
        (!self->in_order && request->deadline_at < line->last_due_at))
        return 0;
    int64_t work_ns = line->work_ns, row_ns = self->row_ns[request->model];
    int64_t believed_ns = self->believed_row_ns[request->model];
    if (believed_ns != row_ns)
        work_ns = (int64_t)((__int128)work_ns * believed_ns / row_ns);
    return work_ns / (executors > 0 ? executors : 1);
}

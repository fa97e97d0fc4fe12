#include "lab/run/run_csv.h"

#include "base/instant.h"
#include "lab/scenario/allocate.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- tasks ---- */

struct tt_task_row {
    struct tt_list_node link;
    int64_t start_at, end_at;
    int32_t executor, model, step;
    bool open;
    struct tt_text requests;
};

static struct tt_task_row *row_of(struct tt_list_node *node) {
    return TT_CONTAINER_OF(node, struct tt_task_row, link);
}

enum tt_err tt_tasks_csv_open(struct tt_tasks_csv *self, const char *path,
                              const char *const *model_names, int32_t executor_count,
                              struct tt_error *why) {
    struct tt_durable_out out;
    enum tt_err err = tt_durable_begin(&out, path, why);
    if (err)
        return err;
    struct tt_task_row **open = tt_allocate((size_t)executor_count, sizeof(struct tt_task_row *));
    *self = (struct tt_tasks_csv){
        .out = out, .model_names = model_names, .open = open, .executor_count = executor_count};
    tt_list_init(&self->rows);
    tt_list_init(&self->spare);
    fputs("start_ns,end_ns,executor,model,step,requests\n", out.file);
    return TT_OK;
}

static struct tt_task_row *take_row(struct tt_tasks_csv *self) {
    struct tt_list_node *node = tt_list_first(&self->spare);
    if (node) {
        tt_list_remove(node);
        return row_of(node);
    }
    struct tt_task_row *row = tt_allocate(1, sizeof(*row));
    tt_text_init(&row->requests);
    return row;
}

void tt_tasks_csv_started(struct tt_tasks_csv *self, int64_t now, const struct tt_task *task,
                          int32_t step, const int64_t *request_numbers) {
    struct tt_task_row *row = take_row(self);
    row->start_at = row->end_at = now;
    row->executor = task->executor;
    row->model = task->model;
    row->step = step;
    row->open = true;
    tt_text_clear(&row->requests);
    for (int32_t i = 0; i < task->count; i++) {
        char number[24];
        int length =
            snprintf(number, sizeof(number), i ? " %" PRId64 : "%" PRId64, request_numbers[i]);
        tt_text_append(&row->requests, number, (size_t)length);
    }
    /* Steps mostly come in order of time; those of one instant are sorted by executor. */
    struct tt_list_node *after = tt_list_last(&self->rows);
    struct tt_list_node *position = &self->rows.head;
    while (after && (row_of(after)->start_at > now || (row_of(after)->start_at == now &&
                                                       row_of(after)->executor > task->executor))) {
        position = after;
        after = after->prev == &self->rows.head ? NULL : after->prev;
    }
    tt_list_insert_before(position, &row->link);
    self->open[task->executor] = row;
}

static void write_row(struct tt_tasks_csv *self, struct tt_task_row *row) {
    fprintf(self->out.file, "%" PRId64 ",%" PRId64 ",%d,%s,%d,%s\n", row->start_at, row->end_at,
            row->executor, self->model_names[row->model], row->step,
            tt_text_string(&row->requests));
    self->failed = self->failed || row->requests.failed;
}

/* Writes rows that started before `now` and have ended, up to the first that still runs. */
static void flush_rows(struct tt_tasks_csv *self, int64_t now) {
    struct tt_list_node *node;
    while ((node = tt_list_first(&self->rows)) != NULL) {
        struct tt_task_row *row = row_of(node);
        if (row->open || row->start_at >= now)
            return;
        write_row(self, row);
        tt_list_remove(node);
        tt_list_push_front(&self->spare, node);
    }
}

void tt_tasks_csv_ended(struct tt_tasks_csv *self, int64_t now, const struct tt_task *task,
                        int32_t step) {
    struct tt_task_row *row = self->open[task->executor];
    if (!row)
        return;
    self->open[task->executor] = NULL;
    row->end_at = now;
    row->step = step;
    row->open = false;
    if (!self->is_unordered)
        flush_rows(self, now);
}

static void free_rows(struct tt_list *rows) {
    struct tt_list_node *node;
    while ((node = tt_list_first(rows)) != NULL) {
        tt_list_remove(node);
        tt_text_fini(&row_of(node)->requests);
        free(row_of(node));
    }
}

enum tt_err tt_tasks_csv_close(struct tt_tasks_csv *self, enum tt_err err, struct tt_error *why) {
    if (!self->out.file)
        return err;
    for (struct tt_list_node *node = tt_list_first(&self->rows); node;
         node = tt_list_next(&self->rows, node))
        if (!row_of(node)->open)
            write_row(self, row_of(node));
    free_rows(&self->rows);
    free_rows(&self->spare);
    free(self->open);
    if (!err && self->failed)
        err = tt_fail(TT_ERR_NO_MEMORY, why, "%s: out of memory", self->out.path);
    err = tt_durable_end(&self->out, err, why);
    *self = (struct tt_tasks_csv){0};
    return err;
}

/* ---- outcomes ---- */

enum tt_err tt_outcomes_csv_open(struct tt_outcomes_csv *self, const char *path,
                                 const char *const *model_names, struct tt_error *why) {
    *self = (struct tt_outcomes_csv){.model_names = model_names};
    enum tt_err err = tt_durable_begin(&self->out, path, why);
    if (!err)
        fputs("request,model,arrived_ns,deadline_ns,finished_ns,outcome\n", self->out.file);
    return err;
}

static void grow(struct tt_outcomes_csv *self, int64_t needed) {
    int64_t capacity = self->capacity ? self->capacity : 1024;
    while (capacity < needed)
        capacity *= 2;
    struct tt_sim_ending *ring = tt_allocate((size_t)capacity, sizeof(*ring));
    bool *present = tt_allocate((size_t)capacity, sizeof(*present));
    for (int64_t i = 0; i < self->capacity; i++) {
        int64_t number = self->next + i;
        int64_t from = number & (self->capacity - 1), to = number & (capacity - 1);
        present[to] = self->present[from];
        if (present[to])
            ring[to] = self->ring[from];
    }
    free(self->ring);
    free(self->present);
    self->ring = ring;
    self->present = present;
    self->capacity = capacity;
}

static const char *outcome_name(const struct tt_sim_ending *ending) {
    switch (ending->ending) {
    case TT_ENDING_DONE: return tt_sim_ending_in_time(ending) ? "ok" : "late";
    case TT_ENDING_DROPPED: return "dropped";
    case TT_ENDING_FAILED: return "failed";
    case TT_ENDING_CANCELLED: return "cancelled";
    }
    return "unknown";
}

static void write_outcome(struct tt_outcomes_csv *self, const struct tt_sim_ending *ending) {
    fprintf(self->out.file, "%" PRId64 ",%s,%" PRId64 ",", ending->number,
            self->model_names[ending->model], ending->arrived_at);
    if (ending->deadline_at != TT_NEVER)
        fprintf(self->out.file, "%" PRId64, ending->deadline_at);
    fprintf(self->out.file, ",%" PRId64 ",%s\n", ending->ended_at, outcome_name(ending));
}

void tt_outcomes_csv_ended(struct tt_outcomes_csv *self, const struct tt_sim_ending *ending) {
    int64_t needed = ending->number - self->next + 1;
    tt_assert(needed >= 1);
    if (needed > self->capacity)
        grow(self, needed);
    int64_t at = ending->number & (self->capacity - 1);
    self->ring[at] = *ending;
    self->present[at] = true;
    while (self->present[at = self->next & (self->capacity - 1)]) {
        write_outcome(self, &self->ring[at]);
        self->present[at] = false;
        self->next++;
    }
}

enum tt_err tt_outcomes_csv_close(struct tt_outcomes_csv *self, enum tt_err err,
                                  struct tt_error *why) {
    if (!self->out.file)
        return err;
    for (int64_t i = 0; i < self->capacity;
         i++) { /* after an interruption: outcomes behind open ones */
        int64_t at = (self->next + i) & (self->capacity - 1);
        if (self->present[at])
            write_outcome(self, &self->ring[at]);
    }
    free(self->ring);
    free(self->present);
    err = tt_durable_end(&self->out, err, why);
    *self = (struct tt_outcomes_csv){0};
    return err;
}

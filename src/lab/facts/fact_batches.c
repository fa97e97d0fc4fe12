#include "lab/facts/fact_batches.h"

#include "lab/scenario/allocate.h"

#include <stdlib.h>
#include <string.h>

enum { FEWEST = 1024 };

/* `count` elements of `size` bytes or more, new ones zero; changes the capacity. */
static void *grown(void *array, int64_t *capacity, int64_t count, size_t size) {
    if (count <= *capacity)
        return array;
    int64_t wanted = *capacity > 0 ? *capacity : FEWEST;
    while (wanted < count)
        wanted *= 2;
    char *out = tt_reallocate(array, (size_t)wanted, size);
    memset(out + (size_t)*capacity * size, 0, (size_t)(wanted - *capacity) * size);
    *capacity = wanted;
    return out;
}

/* The batch `from` went on, in part or as a whole, in the batch `to`. */
static void follow(struct tt_fact_batches *self, int64_t from, int64_t to) {
    struct tt_fact_batch *batch = &self->tasks[from];
    if (batch->next == 0)
        batch->next = to + 1;
    if (batch->next == to + 1 || batch->divided)
        return;
    batch->divided = true;
    self->divided++;
}

static void step_started(void *context, int64_t now, const struct tt_task *task, int32_t step,
                         const int64_t *request_numbers) {
    (void)now;
    struct tt_fact_batches *self = context;
    if (step != task->first_step)
        return;
    self->tasks = grown(self->tasks, &self->task_capacity, task->number + 1, sizeof(*self->tasks));
    self->started++;
    int64_t first = 0; /* the batch of the first member that was in one, plus 1 */
    bool joined = false;
    for (int32_t i = 0; i < task->count; i++) {
        self->last =
            grown(self->last, &self->request_capacity, request_numbers[i] + 1, sizeof(*self->last));
        int64_t *last = &self->last[request_numbers[i]], before = *last;
        *last = task->number + 1;
        if (before == 0 || before == *last) /* it begins, or the task repeats its steps */
            continue;
        first = first ? first : before;
        joined = joined || before != first;
        follow(self, before - 1, task->number);
    }
    self->joined += joined;
}

struct tt_sim_observer tt_fact_batches_observer(struct tt_fact_batches *self) {
    return (struct tt_sim_observer){.context = self, .step_started = step_started};
}

json_t *tt_fact_batches_json(const struct tt_fact_batches *self) {
    return json_pack("{s:I,s:I,s:I}", "started", (json_int_t)self->started, "joined",
                     (json_int_t)self->joined, "divided", (json_int_t)self->divided);
}

void tt_fact_batches_fini(struct tt_fact_batches *self) {
    free(self->tasks);
    free(self->last);
    *self = (struct tt_fact_batches){0};
}

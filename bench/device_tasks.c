/* D4: what a task costs on a stream of the host device, and as a task of an engine of threads. Both
 * copy 16 floats per row from input to output, so the rest is the way there and back.
 * bench/device_tasks.py builds and runs it. */
#include "../examples/engine/echo.c"

#include "base/clock.h"
#include "base/threads/eventcount.h"
#include "base/threads/ring.h"
#include "device/async_host.h"
#include "engine/streams/stream_engine.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

enum { FLOATS = 16, MOST = 8, DEPTH = 4, SLOTS = 64, ROUNDS = 51, WARM = 100 };

static const struct tt_signature signature = {
    .batched = true,
    .max_batch = MOST,
    .input_count = 1,
    .output_count = 1,
    .inputs = {{"x", TT_DTYPE_FP32, {2, {-1, FLOATS}}}},
    .outputs = {{"y", TT_DTYPE_FP32, {2, {-1, FLOATS}}}},
};

/* One engine with the model, and where its tasks come back. */
struct way {
    const char *name;
    struct tt_async_device *device; /* NULL: threads */
    struct tt_engine *engine;
    struct tt_engine_model *model;
    bool is_here, rings;
    char *slots; /* of the ring of inputs; NULL: they come with the batch */
    int32_t next_slot;
    struct tt_ring returned;
    struct tt_eventcount eventcount;
};

struct batch {
    struct tt_engine_task task;
    struct tt_engine_member members[MOST];
    struct tt_tensor_view inputs[MOST];
    float values[MOST][FLOATS];
};

static void require(enum tt_err err, const struct tt_error *why) {
    if (!err)
        return;
    fprintf(stderr, "device_tasks: %s\n", why->text);
    exit(1);
}

static void back(void *context, struct tt_device_task *head) {
    struct way *self = context;
    if (!tt_ring_push(&self->returned, tt_engine_task_of(head)))
        exit(1);
    tt_eventcount_notify(&self->eventcount);
}

static void open_way(struct way *self, bool on_stream, enum tt_stream_transfer transfer) {
    struct tt_error why = {""};
    const struct tt_engine_options options = {
        .executor_count = 1, .queue_depth = DEPTH, .done = back, .done_context = self};
    tt_eventcount_init(&self->eventcount);
    require(tt_ring_init(&self->returned, 2 * DEPTH), &why);
    if (!on_stream) {
        const struct tt_engine_model_spec spec = {.name = "echo", .signature = &signature};
        require(tt_echo_engine_kind.open(NULL, &options, &self->engine, &why), &why);
        require(tt_echo_engine_kind.load(self->engine, &spec, &self->model, &why), &why);
        return;
    }
    const struct tt_async_host_options host = {.queue_depth = 1024};
    require(tt_async_host_open(&host, &self->device, &why), &why);
    const struct tt_stream_engine_options streams = {
        .engine = options, .device = self->device, .transfer = transfer};
    const struct tt_stream_program program = {.signature = &signature, .step_count = 1};
    require(tt_stream_engine_open(&streams, &self->engine, &why), &why);
    require(tt_stream_engine_load(self->engine, &program, &self->model, &why), &why);
    if (self->rings)
        require(self->engine->ops->inputs->open(self->model, SLOTS, &self->slots, &why), &why);
}

static void close_way(struct way *self) {
    self->engine->ops->unload(self->model);
    self->engine->ops->close(self->engine);
    tt_async_device_close(self->device);
    tt_ring_fini(&self->returned);
}

/* Its inputs arrive one by one, as from clients. */
static void submit(struct way *self, struct batch *batch, int32_t executor_rows) {
    batch->task = (struct tt_engine_task){
        .model = self->model, .members = batch->members, .member_count = executor_rows};
    if (self->next_slot + executor_rows > SLOTS)
        self->next_slot = 0;
    for (int32_t i = 0; i < executor_rows; i++) {
        const void *bytes = batch->values[i];
        if (self->slots) {
            char *slot = self->slots + (size_t)self->next_slot * sizeof(batch->values[i]);
            memcpy(slot, bytes, sizeof(batch->values[i]));
            self->engine->ops->inputs->send(self->model, self->next_slot++, 1);
            bytes = slot;
        }
        batch->inputs[i] =
            (struct tt_tensor_view){bytes, sizeof(batch->values[i]), {2, {1, FLOATS}}};
        batch->members[i] = (struct tt_engine_member){.rows = 1, .inputs = &batch->inputs[i]};
    }
    if (self->is_here)
        self->engine->ops->run_here(self->engine, &batch->task);
    else
        tt_engine_submit(self->engine, &batch->task);
}

/* A wrong answer ends the program. */
static void settle(const struct way *self, struct batch *batch, int32_t rows) {
    for (int32_t i = 0; i < rows; i++) {
        struct tt_engine_member *member = &batch->members[i];
        struct tt_tensor_view view;
        if (member->err || !member->result)
            exit(1);
        self->engine->ops->output(member->result, 0, member->first_row, 1, &view);
        if (memcmp(view.bytes, batch->values[i], sizeof(batch->values[i])) != 0)
            exit(1);
        self->engine->ops->result_release(member->result);
    }
}

static struct batch *await(struct way *self) {
    struct tt_engine_task *task;
    while (!(task = tt_ring_pop(&self->returned)))
        tt_eventcount_wait(&self->eventcount, TT_NEVER);
    return TT_CONTAINER_OF(task, struct batch, task);
}

static void run_tasks(struct way *self, struct batch *batches, int32_t in_flight, int32_t rows,
                      int32_t tasks) {
    int32_t sent = 0;
    for (; sent < in_flight; sent++)
        submit(self, &batches[sent], rows);
    for (int32_t ended = 0; ended < tasks + in_flight; ended++) {
        struct batch *batch = await(self);
        settle(self, batch, rows);
        batch->values[0][0] += 1;
        if (sent < tasks + in_flight) {
            submit(self, batch, rows);
            sent++;
        }
    }
}

static double spent_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static double sleeps(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_nvcsw;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(const double *values) {
    double sorted[ROUNDS];
    memcpy(sorted, values, sizeof(sorted));
    qsort(sorted, ROUNDS, sizeof(*sorted), compare);
    return sorted[ROUNDS / 2];
}

static double least_of(const double *values) {
    double least = values[0];
    for (int r = 1; r < ROUNDS; r++)
        least = values[r] < least ? values[r] : least;
    return least;
}

/* In turns: each round measures every way once. `more` compares within a round. */
static void measure(struct way *ways, int32_t count, int32_t in_flight, int32_t rows,
                    int32_t tasks) {
    static struct batch batches[DEPTH];
    enum { WAYS = 8 };
    double us[WAYS][ROUNDS], slept[WAYS][ROUNDS], more[ROUNDS];
    for (int32_t i = 0; i < DEPTH; i++)
        for (int32_t row = 0; row < MOST; row++)
            for (int32_t f = 0; f < FLOATS; f++)
                batches[i].values[row][f] = (float)(i + row + f);
    for (int r = 0; r < ROUNDS; r++)
        for (int32_t w = 0; w < count; w++) {
            run_tasks(&ways[w], batches, in_flight, rows, WARM);
            double began_us = spent_us(), began = sleeps();
            run_tasks(&ways[w], batches, in_flight, rows, tasks);
            us[w][r] = (spent_us() - began_us) / (tasks + in_flight);
            slept[w][r] = (sleeps() - began) / (tasks + in_flight);
        }
    for (int32_t w = 0; w < count; w++) {
        for (int r = 0; r < ROUNDS; r++)
            more[r] = us[w][r] - us[0][r];
        printf("| %d | %d | %s | %.2f | %.2f | %.2f | %.2f | %.2f |\n", in_flight, rows,
               ways[w].name, least_of(us[w]), median_of(us[w]), least_of(us[w]) - least_of(us[0]),
               median_of(more), median_of(slept[w]));
    }
    fflush(stdout);
}

int main(int argc, char **argv) {
    int32_t tasks = argc > 1 ? atoi(argv[1]) : 1000;
    static struct way ways[] = {{.name = "an executor's thread"},
                                {.name = "this thread", .is_here = true},
                                {.name = "a stream, inputs sent when they arrive", .rings = true},
                                {.name = "a stream, inputs copied one by one"},
                                {.name = "a stream, whole batches copied"}};
    enum { COUNT = sizeof(ways) / sizeof(*ways) };
    for (int32_t w = 0; w < COUNT; w++)
        open_way(&ways[w], w >= 2, w == 4 ? TT_STREAM_WHOLE : TT_STREAM_EACH);
    printf(
        "| tasks at once | requests in a task | run by | least us per task | median | least, more "
        "than the first | median of that | sleeps |\n|---|---|---|---|---|---|---|---|\n");
    for (int32_t in_flight = 1; in_flight <= DEPTH; in_flight *= 4)
        for (int32_t rows = 1; rows <= MOST; rows *= 8)
            measure(ways, COUNT, in_flight, rows, tasks);
    for (int32_t w = 0; w < COUNT; w++)
        close_way(&ways[w]);
    return 0;
}

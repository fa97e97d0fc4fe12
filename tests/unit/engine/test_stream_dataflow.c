/* threaded */
/* D4, L6: what passes between the steps of a model on streams: random graphs of steps with tensors
 * of several sizes, some read much later, against a naive evaluation; in random tasks, with slots
 * that are adjacent or not; and tasks that stop between two steps. */
#include "base/prng.h"
#include "base/threads/ring.h"
#include "device/async_host.h"
#include "device/async_order.h"
#include "engine/streams/stream_engine.h"
#include "unit/seed.h"

#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    STEPS = 6,
    TENSORS = 20,
    WORDS = 5, /* of a row, at most */
    BATCH = 8,
    SLOTS = 40,
    REQUESTS = 12,
    MAX_ROWS = 3,
    EXECUTORS = 2,
    DEPTH = 3,
    ROUNDS = 300,
    WORLDS = 24
};

struct graph {
    struct tt_dataflow flow;
    struct tt_signature signature;
    int32_t inputs[STEPS][3], outputs[STEPS][2]; /* the flow's arrays */
};

/* A gate in each step, for tests that need to know where a task is. */
struct gate {
    sem_t entered, go;
    int32_t step; /* -1: none */
};

struct request {
    uint32_t rows[2][MAX_ROWS * WORDS]; /* of each input */
    struct tt_tensor_view views[2];
    struct tt_engine_state *state;
    int32_t count, step; /* step -1: in a task */
};

struct batch {
    struct tt_engine_task task; /* first */
    struct tt_engine_member members[BATCH];
    struct request *requests[BATCH];
    bool is_used;
};

struct world {
    struct graph graph;
    struct gate gate;
    struct tt_async_device *device;
    struct tt_engine *engine;
    struct tt_engine_model *model;
    struct tt_ring returned[EXECUTORS]; /* each has one thread that fills it */
    struct request requests[REQUESTS];
    struct batch batches[EXECUTORS * DEPTH];
    int32_t depth[EXECUTORS], under_way, done, stopped, in_place, gathered;
    struct tt_prng prng;
    char conflict[512];
};

static int32_t below(struct world *self, int32_t limit) {
    return (int32_t)tt_prng_below(&self->prng, (uint64_t)limit);
}

/* ---- graphs, and what they compute ---- */

static int32_t words_of(const struct tt_dataflow *flow, int32_t tensor) {
    return (int32_t)(flow->tensors[tensor].row_bytes / sizeof(uint32_t));
}

static void set_spec(struct tt_tensor_spec *spec, const char *name, int32_t number, int32_t words) {
    *spec = (struct tt_tensor_spec){.dtype = TT_DTYPE_UINT32, .shape = {2, {-1, words}}};
    snprintf(spec->name, sizeof(spec->name), "%s%d", name, number);
}

static void set_tensor(struct tt_dataflow *flow, int32_t words, int32_t producer) {
    flow->tensors[flow->tensor_count++] =
        (struct tt_dataflow_tensor){.dtype = TT_DTYPE_UINT32,
                                    .shape = {2, {-1, words}},
                                    .row_bytes = (size_t)words * sizeof(uint32_t),
                                    .producer = producer,
                                    .last_use = producer};
}

static void add_step(struct world *self, int32_t s, bool is_last) {
    struct graph *graph = &self->graph;
    struct tt_dataflow *flow = &graph->flow;
    struct tt_dataflow_step *step = &flow->steps[s];
    int32_t known = flow->tensor_count;
    *step = (struct tt_dataflow_step){.inputs = graph->inputs[s], .outputs = graph->outputs[s]};
    for (int32_t wanted = 1 + below(self, 3); wanted > 0; wanted--) {
        int32_t tensor = wanted == 1 && s > 0 ? known - 1 : below(self, known);
        bool has = false;
        for (int32_t i = 0; i < step->input_count; i++)
            has |= step->inputs[i] == tensor;
        if (!has)
            step->inputs[step->input_count++] = tensor;
        flow->tensors[tensor].last_use = s;
    }
    for (int32_t made = 1 + below(self, 2); made > 0; made--) {
        step->outputs[step->output_count++] = flow->tensor_count;
        set_tensor(flow, 1 + below(self, WORDS), s);
    }
    int32_t outputs = is_last ? step->output_count : below(self, 4) == 0;
    for (int32_t i = 0; i < outputs; i++) {
        struct tt_signature *signature = &graph->signature;
        int32_t tensor = step->outputs[i], number = signature->output_count++;
        flow->outputs[number] = tensor;
        flow->tensors[tensor].last_use = flow->step_count;
        set_spec(&signature->outputs[number], "y", number, words_of(flow, tensor));
    }
}

/* An output that a later step reads stays one. */
static void keep_outputs(struct graph *graph) {
    for (int32_t i = 0; i < graph->signature.output_count; i++)
        graph->flow.tensors[graph->flow.outputs[i]].last_use = graph->flow.step_count;
}

static void make_graph(struct world *self, int32_t steps) {
    struct graph *graph = &self->graph;
    assert_int_equal(tt_dataflow_init(&graph->flow, steps, TENSORS), TT_OK);
    graph->flow.tensor_count = 0;
    graph->signature = (struct tt_signature){
        .batched = true, .max_batch = BATCH, .input_count = 1 + below(self, 2)};
    for (int32_t i = 0; i < graph->signature.input_count; i++) {
        int32_t words = 1 + below(self, WORDS);
        set_spec(&graph->signature.inputs[i], "x", i, words);
        set_tensor(&graph->flow, words, -1);
        graph->flow.tensors[i].last_use = 0;
    }
    for (int32_t s = 0; s < steps; s++)
        add_step(self, s, s == steps - 1);
    keep_outputs(graph);
}

static void free_graph(struct graph *graph) {
    for (int32_t s = 0; s < graph->flow.step_count; s++)
        graph->flow.steps[s] = (struct tt_dataflow_step){0}; /* they are the graph's */
    tt_dataflow_fini(&graph->flow);
}

static uint32_t mix(uint32_t sum, uint32_t word) {
    return (sum ^ word) * UINT32_C(0x9e3779b1) + UINT32_C(0x7f4a7c15);
}

/* One row of a step: each word made depends on all words read, the step, and its place. */
static void compute_row(const struct tt_dataflow *flow, int32_t s, const uint32_t *const *in,
                        uint32_t *const *out) {
    const struct tt_dataflow_step *step = &flow->steps[s];
    uint32_t sum = (uint32_t)s;
    for (int32_t i = 0; i < step->input_count; i++)
        for (int32_t w = 0; w < words_of(flow, step->inputs[i]); w++)
            sum = mix(sum, in[i][w]);
    for (int32_t o = 0; o < step->output_count; o++)
        for (int32_t w = 0; w < words_of(flow, step->outputs[o]); w++)
            out[o][w] = sum = mix(sum, (uint32_t)(o * WORDS + w));
}

static enum tt_err compute(void *context, int32_t s, int32_t rows, const void *const *in,
                           void *const *out, struct tt_error *why) {
    struct world *self = context;
    const struct tt_dataflow *flow = &self->graph.flow;
    const struct tt_dataflow_step *step = &flow->steps[s];
    (void)why;
    if (s == self->gate.step) {
        sem_post(&self->gate.entered);
        while (sem_wait(&self->gate.go) != 0)
            continue;
    }
    for (int32_t o = 0; o < step->output_count; o++) /* so it shows if an input lies there */
        memset(out[o], 0xa5, (size_t)rows * flow->tensors[step->outputs[o]].row_bytes);
    for (int32_t row = 0; row < rows; row++) {
        const uint32_t *from[3];
        uint32_t *to[2];
        for (int32_t i = 0; i < step->input_count; i++)
            from[i] = (const uint32_t *)in[i] + row * words_of(flow, step->inputs[i]);
        for (int32_t o = 0; o < step->output_count; o++)
            to[o] = (uint32_t *)out[o] + row * words_of(flow, step->outputs[o]);
        compute_row(flow, s, from, to);
    }
    return TT_OK;
}

/* The naive evaluation: all tensors of one row at once. */
static void evaluate(const struct tt_dataflow *flow, const struct request *request, int32_t row,
                     uint32_t values[TENSORS][WORDS]) {
    for (int32_t i = 0; flow->tensors[i].producer < 0; i++)
        memcpy(values[i], &request->rows[i][row * words_of(flow, i)], flow->tensors[i].row_bytes);
    for (int32_t s = 0; s < flow->step_count; s++) {
        const uint32_t *from[3];
        uint32_t *to[2];
        for (int32_t i = 0; i < flow->steps[s].input_count; i++)
            from[i] = values[flow->steps[s].inputs[i]];
        for (int32_t o = 0; o < flow->steps[s].output_count; o++)
            to[o] = values[flow->steps[s].outputs[o]];
        compute_row(flow, s, from, to);
    }
}

static void check_member(const struct world *self, const struct batch *batch, int32_t i) {
    const struct tt_engine_member *member = &batch->members[i];
    const struct graph *graph = &self->graph;
    assert_int_equal(member->err, TT_OK);
    for (int32_t row = 0; row < member->rows; row++) {
        uint32_t values[TENSORS][WORDS];
        evaluate(&graph->flow, batch->requests[i], row, values);
        for (int32_t o = 0; o < graph->signature.output_count; o++) {
            struct tt_tensor_view view;
            size_t bytes = graph->flow.tensors[graph->flow.outputs[o]].row_bytes;
            self->engine->ops->output(member->result, o, member->first_row, member->rows, &view);
            assert_memory_equal((const char *)view.bytes + (size_t)row * bytes,
                                values[graph->flow.outputs[o]], bytes);
        }
    }
}

/* ---- worlds ---- */

static void done(void *context, struct tt_device_task *task) {
    struct world *self = context;
    bool pushed = tt_ring_push(&self->returned[task->executor], task);
    tt_assert(pushed);
}

static void on_conflict(void *context, const char *text) {
    struct world *self = context;
    snprintf(self->conflict, sizeof(self->conflict), "%s", text);
}

static void open_world(struct world *self, uint64_t seed, uint64_t number, int32_t steps,
                       bool checks_order) {
    struct tt_error why = {""};
    struct tt_async_order_options order = {
        .max_streams = 16, .on_conflict = on_conflict, .context = self};
    struct tt_async_host_options host = {
        .memory_bytes = 1 << 20, .max_streams = 16, .queue_depth = 1024};
    *self = (struct world){.gate.step = -1};
    tt_prng_init(&self->prng, seed, number);
    make_graph(self, steps);
    if (checks_order)
        assert_int_equal(tt_async_order_new(&order, &host.take_order, &why), TT_OK);
    assert_int_equal(tt_async_host_open(&host, &self->device, &why), TT_OK);
    for (int32_t e = 0; e < EXECUTORS; e++)
        assert_int_equal(tt_ring_init(&self->returned[e], 64), TT_OK);
    const struct tt_stream_engine_options options = {.engine = {.executor_count = EXECUTORS,
                                                                .queue_depth = DEPTH,
                                                                .done = done,
                                                                .done_context = self},
                                                     .device = self->device};
    assert_int_equal(tt_stream_engine_open(&options, &self->engine, &why), TT_OK);
    const struct tt_stream_program program = {.signature = &self->graph.signature,
                                              .step_count = steps,
                                              .slot_count = SLOTS,
                                              .dataflow = &self->graph.flow,
                                              .context = self,
                                              .compute = compute};
    if (tt_stream_engine_load(self->engine, &program, &self->model, &why))
        fail_msg("%s", why.text);
}

static void close_world(struct world *self) {
    for (int32_t i = 0; i < REQUESTS; i++)
        if (self->requests[i].step > 0)
            self->engine->ops->state_release(self->requests[i].state);
    self->engine->ops->unload(self->model); /* which asserts that no slot is left behind */
    self->engine->ops->close(self->engine);
    tt_async_device_close(self->device);
    for (int32_t e = 0; e < EXECUTORS; e++)
        tt_ring_fini(&self->returned[e]);
    assert_string_equal(self->conflict, "");
    free_graph(&self->graph);
}

static void new_request(struct world *self, struct request *request) {
    *request = (struct request){.count = 1 + below(self, MAX_ROWS)};
    for (int32_t i = 0; i < self->graph.signature.input_count; i++) {
        int32_t words = words_of(&self->graph.flow, i);
        for (int32_t w = 0; w < request->count * words; w++)
            request->rows[i][w] = (uint32_t)tt_prng_next(&self->prng);
        request->views[i] = (struct tt_tensor_view){
            request->rows[i], (size_t)(request->count * words) * 4, {2, {request->count, words}}};
    }
}

static void add_member(struct batch *batch, struct request *request) {
    int32_t i = batch->task.member_count++;
    batch->requests[i] = request;
    batch->members[i] = (struct tt_engine_member){
        .rows = request->count, .inputs = request->views, .state = request->state};
    request->step = -1;
}

static void begin_batch(struct world *self, struct batch *batch, int32_t executor, int32_t first,
                        int32_t last) {
    *batch = (struct batch){.is_used = true,
                            .task = {.head.executor = executor,
                                     .head.first_step = first,
                                     .head.last_step = last,
                                     .model = self->model,
                                     .members = batch->members}};
}

static struct batch *take(struct world *self) {
    struct batch *batch = NULL;
    for (int32_t e = 0; !batch && e < EXECUTORS; e++)
        batch = tt_ring_pop(&self->returned[e]);
    return batch;
}

static struct batch *await(struct world *self) {
    struct batch *batch;
    while (!(batch = take(self)))
        sched_yield();
    return batch;
}

/* The requests of a batch that came back stand behind its last step, or are answered. */
static void settle(struct world *self, struct batch *batch) {
    const struct tt_device_task *head = &batch->task.head;
    bool ends = head->last_step_done == self->graph.flow.step_count - 1;
    assert_int_equal(head->outcome, head->last_step_done < head->last_step ? TT_OUTCOME_PREEMPTED
                                                                           : TT_OUTCOME_DONE);
    assert_in_range(head->last_step_done, head->first_step, head->last_step);
    self->stopped += head->outcome == TT_OUTCOME_PREEMPTED;
    self->in_place += batch->task.gathered_bytes == 0;
    self->gathered += batch->task.gathered_bytes > 0;
    for (int32_t i = 0; i < batch->task.member_count; i++) {
        struct tt_engine_member *member = &batch->members[i];
        assert_true((member->result != NULL) == ends && (member->state == NULL) == ends);
        batch->requests[i]->state = member->state;
        batch->requests[i]->step = head->last_step_done + 1;
        if (!ends)
            continue;
        check_member(self, batch, i);
        self->engine->ops->result_release(member->result);
        new_request(self, batch->requests[i]);
        self->done++;
    }
    batch->is_used = false;
    self->depth[head->executor]--;
    self->under_way--;
}

/* A random task of requests that wait for one step. */
static struct batch *submit_some(struct world *self) {
    int32_t steps = self->graph.flow.step_count, executor = below(self, EXECUTORS), rows = 0;
    int32_t first = self->requests[below(self, REQUESTS)].step;
    struct batch *batch = self->batches;
    if (first < 0 || self->depth[executor] == DEPTH)
        return NULL;
    while (batch->is_used)
        batch++;
    begin_batch(self, batch, executor, first, first + below(self, steps - first));
    int32_t most = MAX_ROWS + below(self, BATCH - MAX_ROWS + 1);
    for (int32_t i = 0; i < REQUESTS; i++)
        if (self->requests[i].step == first && rows + self->requests[i].count <= most) {
            rows += self->requests[i].count;
            add_member(batch, &self->requests[i]);
        }
    self->depth[executor]++;
    self->under_way++;
    tt_engine_submit(self->engine, &batch->task);
    return batch;
}

static void run_world(uint64_t seed, uint64_t number, bool checks_order, int32_t *in_place,
                      int32_t *gathered) {
    static struct world world;
    open_world(&world, seed, number, 1 + (int32_t)(number % STEPS), checks_order);
    for (int32_t i = 0; i < REQUESTS; i++)
        new_request(&world, &world.requests[i]);
    for (int32_t round = 0; round < ROUNDS; round++) {
        struct batch *batch = submit_some(&world);
        if (batch && below(&world, 2))
            tt_engine_yield(world.engine, &batch->task);
        if (!batch && world.under_way > 0)
            settle(&world, await(&world));
        for (struct batch *back; (back = take(&world));)
            settle(&world, back);
    }
    while (world.under_way > 0)
        settle(&world, await(&world));
    assert_true(world.done > 0);
    *in_place += world.in_place;
    *gathered += world.gathered;
    close_world(&world);
}

/* D4, L6 */
static void random_graphs(void **state) {
    (void)state;
    uint64_t seed = test_seed(61);
    int32_t in_place = 0, gathered = 0;
    for (uint64_t number = 0; number < WORLDS; number++)
        run_world(seed, number, number % 2 == 0, &in_place, &gathered);
    print_message("%d tasks in place, %d that copied\n", in_place, gathered);
    assert_true(in_place > WORLDS && gathered > WORLDS);
}

/* ---- stopping ---- */

static void pass(struct gate *gate) {
    while (sem_wait(&gate->entered) != 0)
        continue;
}

/* A task stops behind the step that runs when it is asked to, and its requests go on elsewhere;
 * one that a task follows does not stop. */
static void a_task_stops_between_two_steps(void **state) {
    (void)state;
    static struct world world;
    for (int32_t is_followed = 0; is_followed < 2; is_followed++) {
        open_world(&world, test_seed(62), 0, STEPS, false);
        world.gate.step = 1;
        sem_init(&world.gate.entered, 0, 0);
        sem_init(&world.gate.go, 0, 0);
        struct batch *batch = &world.batches[0], *next = &world.batches[1];
        int32_t last = STEPS - 1 - is_followed;
        begin_batch(&world, batch, 0, 0, last);
        for (int32_t i = 0; i < 2; i++) {
            new_request(&world, &world.requests[i]);
            add_member(batch, &world.requests[i]);
        }
        world.under_way = world.depth[0] = 1;
        tt_engine_submit(world.engine, &batch->task);
        pass(&world.gate);
        begin_batch(&world, next, 1, is_followed ? STEPS - 1 : 2, STEPS - 1);
        if (is_followed) {
            next->task.after = &batch->task;
            for (int32_t i = 0; i < 2; i++)
                add_member(next, &world.requests[i]);
            tt_engine_submit(world.engine, &next->task);
        }
        tt_engine_yield(world.engine, &batch->task);
        sem_post(&world.gate.go);
        struct batch *first = await(&world);
        if (is_followed) { /* in any order */
            struct batch *second = await(&world);
            assert_ptr_not_equal(first, second);
            assert_int_equal(batch->task.head.outcome, TT_OUTCOME_DONE);
        } else {
            assert_int_equal(batch->task.head.outcome, TT_OUTCOME_PREEMPTED);
            assert_int_equal(batch->task.head.last_step_done, 1);
            settle(&world, batch);
            for (int32_t i = 0; i < 2; i++)
                add_member(next, &world.requests[i]);
            tt_engine_submit(world.engine, &next->task);
            assert_ptr_equal(await(&world), next);
        }
        world.under_way = world.depth[1] = 1;
        settle(&world, next);
        assert_int_equal(world.done, 2);
        close_world(&world);
        sem_destroy(&world.gate.entered);
        sem_destroy(&world.gate.go);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_graphs),
        cmocka_unit_test(a_task_stops_between_two_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

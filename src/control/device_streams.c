#include "control/device_streams.h"

#include "base/array.h"
#include "device/async_cuda.h"
#include "device/async_emulated.h"
#include "device/async_host.h"
#include "device/async_upload.h"
#include "engine/streams/stream_cells.h"
#include "engine/streams/stream_engine.h"
#include "engine/streams/stream_model.h"
#include "policy/batch_table.h"
#include "serve/domain.h"
#include "serve/served_model_state.h"

#include <stdlib.h>

enum { MIN_SLOTS = 64, MIN_BATCHES = 4, MIN_QUEUE_DEPTH = 1024 };

/* ---- the device ---- */

static struct tt_async_transfer transfer_of(const struct tt_copy_engine *copies) {
    return (struct tt_async_transfer){.fixed_ns = copies->fixed_ns,
                                      .bytes_per_s = copies->bytes_per_s};
}

static enum tt_err open_device(struct tt_device_streams *self, const struct tt_model_device *given,
                               const struct tt_model_emulation *emulation, bool emulates,
                               int32_t streams, struct tt_error *why) {
    if (given->is_cuda) {
        const struct tt_async_cuda_options cuda = {.index = given->gpu, .max_streams = streams};
        return tt_async_cuda_open(&cuda, &self->device, why);
    }
    if (!emulates) {
        const struct tt_async_host_options host = {.memory_bytes = (uint64_t)given->memory_bytes,
                                                   .max_streams = streams,
                                                   .queue_depth = self->queue_depth};
        return tt_async_host_open(&host, &self->device, why);
    }
    const struct tt_async_emulated_options emulated = {.memory_bytes =
                                                           (uint64_t)given->memory_bytes,
                                                       .max_streams = streams,
                                                       .queue_depth = self->queue_depth,
                                                       .in = transfer_of(&emulation->copy_in),
                                                       .out = transfer_of(&emulation->copy_out),
                                                       .real_time = true};
    return tt_async_emulated_open(&emulated, &self->device, why);
}

static int64_t operations_of(const struct tt_served_model *served, int32_t places) {
    const struct tt_step_model *steps = &served->step_model;
    bool may_exit = tt_step_may_exit(steps, 0, steps->step_count - 1);
    int64_t exits = may_exit ? (int64_t)places * TT_STREAM_MAX_READ_BACKS : 0;
    return served->cells ? tt_stream_cells_operations(served->cells->cells, places)
                         : tt_stream_engine_operations(served->signature, places) + exits;
}

enum tt_err tt_device_streams_open(struct tt_device_streams *self,
                                   const struct tt_model_device *given,
                                   const struct tt_model_emulation *emulation, bool emulates,
                                   const struct tt_served_model *served,
                                   const struct tt_engine_options *options,
                                   struct tt_engine **out_engine, struct tt_error *why) {
    tt_assert(!self->device);
    tt_assert(given->is_given);
    self->given = *given;
    self->places = options->executor_count * options->queue_depth;
    int64_t operations = operations_of(served, self->places);
    if (operations < MIN_QUEUE_DEPTH)
        operations = MIN_QUEUE_DEPTH;
    if (operations > INT32_MAX / 2)
        return tt_fail(TT_ERR_NO_MEMORY, why,
                       "%d tasks of %d rows at once are more than a "
                       "device's streams hold: give the model a smaller "
                       "max_batch_size or fewer instances",
                       self->places, served->signature->max_batch);
    self->queue_depth = (int32_t)operations;
    /* Per executor one for its work and one for its notices; one for inputs of batches, one for
     * those that arrive, and one for weights and other uploads. */
    int32_t streams = 2 * options->executor_count + 3;
    enum tt_err err = open_device(self, given, emulation, emulates, streams, why);
    if (err)
        return err;
    struct tt_stream_engine_options engine = {.engine = *options,
                                              .device = self->device,
                                              .transfer = given->copies_whole ? TT_STREAM_WHOLE
                                                                              : TT_STREAM_EACH,
                                              .max_rows = TT_DOMAIN_MAX_BATCH,
                                              .queue_depth = self->queue_depth};
    err = tt_stream_engine_open(&engine, out_engine, why);
    if (err)
        tt_device_streams_close(self);
    return err;
}

void tt_device_streams_close(struct tt_device_streams *self) {
    tt_async_device_close(self->device);
    self->device = NULL;
}

bool tt_device_streams_fits(const struct tt_device_streams *self,
                            const struct tt_served_model *served) {
    return operations_of(served, self->places) <= self->queue_depth;
}

/* ---- a model on it ---- */

/* Weights on the device. */
struct kept {
    uint64_t address;
    size_t size_bytes;
};

/* What the program of a served model knows of it. */
struct on_streams {
    struct tt_engine_model *model; /* the backend's; NULL: it was taken back */
    const struct tt_engine_kind *kind;
    const struct tt_served_model *served;
    const struct tt_model_device *given;
    struct tt_async_device *device;
    struct tt_engine_on_gpu *on_gpu; /* NULL: it runs elsewhere */
    struct tt_device_streams_times times;
    struct tt_signature signature;  /* all dimensions but the rows are fixed; not of cells */
    int32_t cell_slots;             /* what the backend's model of cells has */
    struct tt_dataflow dataflow;    /* of a kind that computes */
    struct tt_async_upload *upload; /* while it is prepared */
    struct kept *kept;
    int64_t kept_capacity;
    int32_t kept_count;
};

static int64_t latency(void *context, int32_t rows, int32_t length, int32_t first_step,
                       int32_t last_step) {
    const struct on_streams *self = context;
    return self->times.latency_ns((void *)self->served, rows, length, first_step, last_step);
}

static int32_t demand(void *context, int32_t rows, int32_t length, int32_t step) {
    const struct on_streams *self = context;
    return self->times.demand_ppm((void *)self->served, rows, length, step);
}

static enum tt_err compute(void *context, int32_t step, int32_t rows, const void *const *in,
                           void *const *out, struct tt_error *why) {
    const struct on_streams *self = context;
    return self->kind->compute(self->model, &self->dataflow, step, rows, in, out, why);
}

static enum tt_err keep(void *context, const void *bytes, size_t size_bytes, uint64_t *out_address,
                        struct tt_error *why) {
    struct on_streams *self = context;
    if (!TT_ARRAY_RESERVE(self->kept, &self->kept_capacity, self->kept_count + 1))
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for the weights of a model");
    enum tt_err err = tt_async_upload_put(self->upload, bytes, size_bytes, out_address, why);
    if (!err)
        self->kept[self->kept_count++] = (struct kept){*out_address, size_bytes};
    return err;
}

static enum tt_err prepare(void *context, void *const *native_streams, int32_t count,
                           struct tt_error *why) {
    struct on_streams *self = context;
    const struct tt_engine_gpu_options options = {.gpu = self->given->gpu,
                                                  .signature = &self->signature,
                                                  .dataflow = &self->dataflow,
                                                  .keep = keep,
                                                  .keep_context = self,
                                                  .streams = native_streams,
                                                  .stream_count = count,
                                                  .memory_bytes = self->given->memory_bytes};
    enum tt_err err = tt_async_upload_open(self->device, &self->upload, why);
    if (!err)
        err = self->kind->gpu->open(self->model, &options, &self->on_gpu, why);
    tt_async_upload_close(self->upload);
    self->upload = NULL;
    return err;
}

static enum tt_err enqueue(void *context, int32_t executor, void *native_stream, int32_t step,
                           int32_t rows, const uint64_t *in, const uint64_t *out,
                           struct tt_error *why) {
    const struct on_streams *self = context;
    (void)native_stream; /* its session knows it */
    return self->kind->gpu->enqueue(self->on_gpu, executor, step, rows, in, out, why);
}

/* Sessions whose runs may go on stay, with their memory. */
static void close_gpu(const struct on_streams *self) {
    if (self->on_gpu && tt_async_device_keeps(self->device))
        tt_async_device_keep(self->device, self->on_gpu);
    else if (self->on_gpu)
        self->kind->gpu->close(self->on_gpu);
}

static void discard(struct on_streams *take_self) {
    close_gpu(take_self);
    for (int32_t i = 0; i < take_self->kept_count; i++)
        tt_async_release(take_self->device, take_self->kept[i].address,
                         take_self->kept[i].size_bytes);
    tt_dataflow_fini(&take_self->dataflow);
    free(take_self->kept);
    free(take_self);
}

static void release(void *context) {
    struct on_streams *self = context;
    struct tt_engine_model *model = self->model;
    discard(self);
    if (model)
        model->engine->ops->unload(model);
}

/* The engine's signature, with the dimensions that config.pbtxt fixes. */
static void fix_dimensions(struct tt_signature *signature, const struct tt_served_model *served) {
    const struct tt_signature *shown = served->signature;
    signature->max_batch = shown->max_batch;
    for (int32_t i = 0; i < shown->input_count; i++)
        signature->inputs[i].shape = shown->inputs[i].shape;
    for (int32_t i = 0; i < shown->output_count; i++)
        signature->outputs[served->shown_outputs[i]].shape = shown->outputs[i].shape;
}

/* Rows between the steps: as many full batches as steps plus one, or as executors. */
static int32_t usual_slots(const struct tt_signature *signature, int32_t steps, int32_t executors) {
    int32_t batches = steps + 1 > executors ? steps + 1 : executors;
    int64_t slots = (int64_t)signature->max_batch * (batches > MIN_BATCHES ? batches : MIN_BATCHES);
    return slots < MIN_SLOTS ? MIN_SLOTS : slots < INT32_MAX ? (int32_t)slots : INT32_MAX;
}

/* As many as the backend's model has, in at most half of the device's memory, but for a batch. */
static enum tt_err find_slots(const struct on_streams *self, int32_t *out_slots,
                              struct tt_error *why) {
    enum { MANY = 256 }; /* rows whose memory is computed */
    int32_t max_batch = self->signature.max_batch, slots = self->served->step_model.slots;
    struct tt_stream_layout layout;
    enum tt_err err = tt_stream_layout_init(&layout, &self->dataflow, &self->signature, MANY, why);
    int64_t row_bytes = (int64_t)layout.slots_bytes / MANY + 1;
    tt_stream_layout_fini(&layout);
    int64_t fit = self->given->memory_bytes / 2 / row_bytes;
    slots = fit < slots ? (int32_t)fit : slots;
    *out_slots = slots < max_batch ? max_batch : slots;
    return err;
}

/* What passes between the steps, and how many rows of it may wait. */
static enum tt_err set_steps(struct on_streams *self, int32_t executors,
                             struct tt_stream_program *program, struct tt_error *why) {
    int32_t steps = program->step_count;
    if (self->kind->traits.emulates && program->cells)
        return TT_OK;
    if (self->kind->traits.emulates) {
        program->slot_count = steps > 1 ? usual_slots(&self->signature, steps, executors) : 0;
        program->state_bytes = steps > 1 ? tt_tensor_row_bytes(&self->signature.inputs[0]) : 0;
        return TT_OK;
    }
    enum tt_err err = self->kind->lay_out(self->model, &self->signature, &self->dataflow, why);
    program->dataflow = &self->dataflow;
    if (!err && self->dataflow.exit_count > 0 && steps > TT_BATCH_STAGES)
        err = tt_fail(TT_ERR_UNSUPPORTED, why,
                      "a device runs models of exits in at most %d stages, and this one has %d: "
                      "write fewer cuts in `stages`, or leave `exit` or `device` out",
                      TT_BATCH_STAGES, steps);
    return err || steps == 1 || program->cells ? err : find_slots(self, &program->slot_count, why);
}

static void set_work(struct tt_stream_program *program, const struct tt_engine_kind *kind,
                     bool is_cuda) {
    if (kind->traits.emulates) {
        program->latency_ns = latency;
        program->demand_ppm = demand;
        program->compute = program->cells ? compute : NULL;
    } else if (is_cuda) {
        program->prepare = prepare;
        program->enqueue = enqueue;
    } else {
        program->compute = compute;
    }
}

/* None is in use. After an error they are as before. */
static enum tt_err change_slots(struct tt_served_cells *cells, int32_t count,
                                struct tt_error *why) {
    struct tt_cell_slots slots;
    if (tt_cell_slots_init(&slots, count) != TT_OK)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for %d slots", count);
    tt_cell_slots_fini(&cells->slots);
    cells->slots = slots;
    return TT_OK;
}

enum tt_err tt_device_streams_put(const struct tt_device_streams *streams, struct tt_engine *engine,
                                  const struct tt_engine_kind *kind,
                                  const struct tt_device_streams_times *times,
                                  struct tt_served_model *served, struct tt_error *why) {
    const struct tt_engine_ops *ops = served->engine_model->engine->ops;
    struct on_streams *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    *self = (struct on_streams){.model = served->engine_model,
                                .kind = kind,
                                .served = served,
                                .given = &streams->given,
                                .device = streams->device,
                                .times = *times,
                                .signature = *ops->signature(served->engine_model)};
    const struct tt_served_cells *cells = served->cells;
    if (!cells)
        fix_dimensions(&self->signature, served);
    struct tt_stream_program program = {.signature = &self->signature,
                                        .step_count = ops->step_count(served->engine_model),
                                        .cells = cells ? cells->cells : NULL,
                                        .task_ns = cells ? cells->task_ns : 0,
                                        .gather_row_ns = cells ? cells->gather_row_ns : 0,
                                        .context = self,
                                        .release = release};
    set_work(&program, kind, streams->given.is_cuda);
    struct tt_engine_model *model;
    enum tt_err err = set_steps(self, engine->executor_count, &program, why);
    if (!err)
        err = tt_stream_engine_load(engine, &program, &model, why);
    if (err) {
        discard(self);
        return err;
    }
    if (cells) {
        self->cell_slots = cells->slots.capacity;
        err = change_slots(served->cells, engine->ops->cell_slots(model), why);
    } else {
        served->step_model.slots = engine->ops->stage_slots(model);
    }
    if (err) {
        self->model = NULL;
        engine->ops->unload(model);
        return err;
    }
    served->engine_model = model;
    return TT_OK;
}

void tt_device_streams_take_back(struct tt_served_model *served) {
    struct tt_engine_model *model = served->engine_model;
    struct on_streams *self =
        TT_CONTAINER_OF(model, struct tt_stream_model, model)->program.context;
    served->engine_model = self->model;
    self->model = NULL;
    /* Without memory they stay as they are: the model is freed next, or measured on a GPU, whose
     * slots are fewer. */
    if (served->cells)
        (void)change_slots(served->cells, self->cell_slots, NULL);
    model->engine->ops->unload(model);
}

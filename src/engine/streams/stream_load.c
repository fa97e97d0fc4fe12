#include "engine/streams/stream_engine_state.h"

#include "base/array.h"
#include "engine/streams/stream_cells.h"
#include "engine/streams/stream_layout.h"

#include <stdlib.h>

bool tt_stream_engine_make_room(struct tt_stream_engine *self, int32_t rows) {
    for (int32_t i = 0; rows > self->max_rows && i < tt_stream_engine_places(self); i++) {
        struct tt_stream_place *place = &self->places[i];
        int32_t *slots = realloc(place->slots, (size_t)rows * sizeof(*slots));
        if (slots)
            place->slots = slots;
        int32_t *ring_slots = realloc(place->ring_slots, (size_t)rows * sizeof(*ring_slots));
        if (ring_slots)
            place->ring_slots = ring_slots;
        struct tt_stream_answer *answers = realloc(place->answers, (size_t)rows * sizeof(*answers));
        if (answers)
            place->answers = answers;
        if (!slots || !ring_slots || !answers ||
            !TT_ARRAY_RESERVE(place->valid.members, &place->valid.capacity, rows))
            return false;
    }
    self->max_rows = rows > self->max_rows ? rows : self->max_rows;
    return true;
}

int64_t tt_stream_engine_operations(const struct tt_signature *signature, int32_t places) {
    /* Of notices: a wait, two calls and a record; E7: behind the outputs of all members but the
     * last a call, and one that runs while the next task comes. */
    enum { WHATEVER_THE_BATCH = 12, OF_NOTICES = 4 };
    int64_t rows = signature->max_batch, outputs = signature->output_count;
    int64_t most = signature->input_count > outputs ? signature->input_count : outputs;
    int64_t work = WHATEVER_THE_BATCH + rows * most;
    int64_t notices = OF_NOTICES + rows * (outputs + 1);
    return places * (work > notices ? work : notices);
}

static enum tt_err check_room(const struct tt_stream_engine *self,
                              const struct tt_stream_program *program, struct tt_error *why) {
    const struct tt_signature *signature = program->signature;
    int32_t places = tt_stream_engine_places(self);
    int64_t operations = program->cells ? tt_stream_cells_operations(program->cells, places)
                                        : tt_stream_engine_operations(signature, places);
    if (!program->cells && program->dataflow && program->dataflow->exit_count > 0)
        operations += (int64_t)places * TT_STREAM_MAX_READ_BACKS;
    if (!program->cells && self->has_room && signature->max_batch > self->max_rows)
        return tt_fail(TT_ERR_INVALID, why, "batches of %d rows; the device's engine runs up to %d",
                       signature->max_batch, self->max_rows);
    return self->queue_depth == 0 || operations <= self->queue_depth
               ? TT_OK
               : tt_fail(TT_ERR_INVALID, why,
                         "batches of %d rows may take %lld operations of a stream, which holds %d; "
                         "give the model a smaller max_batch",
                         signature->max_batch, (long long)operations, self->queue_depth);
}

static enum tt_err prepare_program(const struct tt_stream_engine *self,
                                   const struct tt_stream_program *program, struct tt_error *why) {
    enum tt_err err = program->prepare ? tt_async_device_status(self->device, why) : TT_OK;
    return err || !program->prepare ? err
                                    : program->prepare(program->context, self->native_streams,
                                                       self->engine.executor_count, why);
}

enum tt_err tt_stream_engine_load(struct tt_engine *engine, const struct tt_stream_program *program,
                                  struct tt_engine_model **out_model, struct tt_error *why) {
    struct tt_stream_engine *self = TT_CONTAINER_OF(engine, struct tt_stream_engine, engine);
    struct tt_stream_model *model;
    enum tt_err err = check_room(self, program, why);
    if (!err)
        err = tt_stream_model_new(self->device, program, self->engine.executor_count, self->depth,
                                  &model, why);
    if (err)
        return err;
    if (!program->cells && !self->has_room &&
        !tt_stream_engine_make_room(self, model->signature.max_batch))
        err = tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for batches of %d rows",
                      program->signature->max_batch);
    if (!err)
        err = prepare_program(self, program, why);
    if (err) {
        tt_stream_model_free(model);
        return err;
    }
    model->model.engine = engine;
    *out_model = &model->model;
    return TT_OK;
}

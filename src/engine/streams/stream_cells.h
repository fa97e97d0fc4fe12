/* C6: models of cells on the streams of a device (engine/streams/stream_engine.h): slots in device
 * memory, and the work of a task.
 *
 * The submitting thread resolves a task: which rows lie where, and which copies on the device make
 * them adjacent. It copies the requests' elements to pinned memory. The task's stream then does, in
 * order: the elements' copies, the copies that gather, the cells, the copies that scatter. So tasks
 * of one stream follow each other without an event and without the host. A task that reads what a
 * task of another stream writes waits for that one's event on the device.
 *
 * States never pass through the host. What answers hold (emitted rows, outputs of a last cell)
 * is copied to pinned memory behind the task's event, on the stream that notifies the host.
 *
 * Memory is taken when the model is loaded. Per executor: an arena for gathered inputs and outputs,
 * which its tasks use one after the other. Per place in its queue: pinned memory for elements.
 *
 * Faults. An element that the request does not have fails its cell. If the cells of a task fail
 * together, halves of them run, down to single cells: only those at fault fail, and their slots are
 * zero. Implemented in stream_cells.c (memory), stream_cells_task.c (the submitting thread) and
 * stream_cells_run.c (the streams). */
#ifndef TT_ENGINE_STREAMS_STREAM_CELLS_H
#define TT_ENGINE_STREAMS_STREAM_CELLS_H

#include "engine/cell_set.h"
#include "engine/streams/stream_place.h"

struct tt_stream_copy {
    uint64_t to, from; /* device addresses; `to` of answers: host memory */
    size_t bytes;
};

struct tt_stream_copies {
    struct tt_stream_copy *copies;
    int32_t count;
    const void *of; /* whose rows the last one copies: an input, an output or a further state */
};

/* What a place needs for a task of cells of its model. */
struct tt_stream_cell_work {
    char *pinned;   /* elements */
    uint64_t arena; /* the executor's; elements at the same offsets, then states, then outputs */
    uint64_t in[TT_MAX_TENSORS], out[TT_MAX_TENSORS]; /* the first row of each of the type's */
    struct tt_stream_copies gathers, scatters, told;
    struct tt_async_range *ranges;  /* with the order checker; else NULL */
    struct tt_async_task **writers; /* [executors]: whose results it reads, of other executors */
    int32_t *failed;                /* [max_batch]: cells at fault, found when it was enqueued */
    int32_t failed_count;
};

/* Offsets of a type's tensors in an arena. */
struct tt_stream_cell_offsets {
    size_t inputs[TT_MAX_TENSORS], outputs[TT_MAX_TENSORS];
};

/* Which task wrote a slot last. */
struct tt_stream_cell_writer {
    struct tt_stream_place *place; /* NULL: none */
    uint64_t turn;                 /* the place's then */
};

struct tt_stream_cells {
    struct tt_async_device *device;
    uint64_t tensors[TT_CELL_TENSORS];      /* [slot_count] rows each; 0: none */
    uint64_t (*initial)[TT_MAX_TENSORS];    /* [type_count]: rows of each state's initial value */
    struct tt_stream_cell_offsets *offsets; /* [type_count] */
    struct tt_stream_cell_writer *writers;  /* [slot_count] */
    int32_t executor_count, depth, max_batch;
    size_t arena_bytes, pinned_bytes;
    uint64_t *arenas;                  /* [executor_count] */
    struct tt_stream_cell_work *works; /* [executor_count * depth] */
    struct tt_cell_set *set;           /* rows on the host: of what answers hold, the pinned copy */
};

/* `asked`: slots; 0: as many as an eighth of the device's memory holds. Errors: those of
 * tt_cell_set_plan; NO_MEMORY (of the device, or of the host), UNAVAILABLE. */
TT_MUST_CHECK enum tt_err tt_stream_cells_new(struct tt_async_device *device,
                                              const struct tt_cells *cells, int32_t asked,
                                              int32_t executor_count, int32_t depth,
                                              struct tt_stream_cells **out_self,
                                              struct tt_error *why);
/* NULL-safe. */
void tt_stream_cells_free(struct tt_stream_cells *take_self);
/* Operations of all tasks of `places` places: what a stream must hold. */
int64_t tt_stream_cells_operations(const struct tt_cells *cells, int32_t places);

static inline uint64_t tt_stream_cells_row(const struct tt_stream_cells *self, int32_t tensor,
                                           int32_t slot) {
    return self->tensors[tensor] + self->set->tensors[tensor].row_bytes * (uint64_t)slot;
}

/* The place was begun for a task of cells of its model: describes it to the device. `work`: the
 * place's. The submitting thread. */
void tt_stream_cells_resolve(struct tt_stream_place *place, struct tt_stream_cell_work *work);
/* The kernel, in its two forms; `context` is the place. */
enum tt_err tt_stream_cells_run(struct tt_async_device *device, void *context);
enum tt_err tt_stream_cells_enqueue(struct tt_async_device *device, void *context,
                                    void *native_stream, struct tt_error *why);
/* What tt_async_task.put does for a task of cells. */
enum tt_err tt_stream_cells_put(struct tt_async_task *task, enum tt_async_put where,
                                struct tt_async_stream *stream, struct tt_error *why);
/* The task is back from the device: sets all that its caller reads. */
void tt_stream_cells_settle(struct tt_stream_place *place);

#endif

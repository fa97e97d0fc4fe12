/* A loaded model on the streams of a device: opens the device and the engine whose executors are
 * its streams (engine/streams/stream_engine.h), and puts models there.
 *
 * The model is loaded by its backend's engine, which checks, measures and warms it up. _put then
 * makes a model of the stream engine, which computes by the kind's `compute`, or on a GPU by its
 * `gpu`; with a kind that emulates, tasks take their time on an emulated device in real time. What
 * runs on a GPU is measured there (control/gpu_profile.h). The stream engine's model
 * owns the backend's: unloading one unloads both. _take_back gives the backend's model back if the
 * served model was not placed. Implemented in device_streams.c. */
#ifndef TT_CONTROL_DEVICE_STREAMS_H
#define TT_CONTROL_DEVICE_STREAMS_H

#include "device/async_device.h"
#include "engine/engine_kind.h"
#include "model/config/settings.h"

struct tt_served_model;

struct tt_device_streams {
    struct tt_async_device *device; /* NULL: none is open */
    struct tt_model_device given;
    int32_t queue_depth; /* operations of a stream */
    int32_t places;      /* tasks at once of all executors */
};

/* How long steps of a served model take, and their share of the device. */
struct tt_device_streams_times {
    tt_engine_latency_fn *latency_ns;
    tt_engine_demand_fn *demand_ppm;
};

/* `served`: the first model; the queues hold its tasks. Errors: NO_MEMORY, IO; of a GPU those of
 * tt_async_cuda_open. */
TT_MUST_CHECK enum tt_err tt_device_streams_open(
    struct tt_device_streams *self, const struct tt_model_device *given,
    const struct tt_model_emulation *emulation, bool emulates, const struct tt_served_model *served,
    const struct tt_engine_options *options, struct tt_engine **out_engine, struct tt_error *why);
/* Its engine is closed. Accepts one that is not open. */
void tt_device_streams_close(struct tt_device_streams *self);
/* True if the queues hold the tasks of the model. */
bool tt_device_streams_fits(const struct tt_device_streams *self,
                            const struct tt_served_model *served);
/* Replaces served->engine_model by one of `engine`, and sets how many rows may be between its
 * steps, or how many slots its cells have. Errors: INVALID, UNSUPPORTED, NO_MEMORY (of the device,
 * too). */
TT_MUST_CHECK enum tt_err tt_device_streams_put(const struct tt_device_streams *self,
                                                struct tt_engine *engine,
                                                const struct tt_engine_kind *kind,
                                                const struct tt_device_streams_times *times,
                                                struct tt_served_model *served,
                                                struct tt_error *why);
/* Undoes _put. No task of the model has been submitted. */
void tt_device_streams_take_back(struct tt_served_model *served);

#endif

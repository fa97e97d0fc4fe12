/* D4, E1, C6: an asynchronous device: streams, events, device memory and copies, as a GPU has them.
 *
 * A device has memory of its own, which host code cannot read or write. Work goes to *streams*:
 * copies, fills, kernels and callbacks. A stream does its operations one after the other; streams
 * overlap. An *event* marks a place in a stream. Another stream can wait for it on the device,
 * without the host. Every submission returns at once.
 *
 * Kinds of device, each with a header of its own that opens it:
 * - async_host.h: threads of this process run the streams, kernels are C functions;
 * - async_emulated.h: operations take the time of a description, in virtual or real time;
 * - async_cuda.h: an NVIDIA GPU, through its driver.
 *
 * Life: open (by kind), streams, events and memory; submit; close all of them; close the device.
 *
 * Failure. A kernel or a copy that fails makes the whole device fail, as on a GPU. From then on
 * every call but the closing ones returns UNAVAILABLE with the reason; waiting ends at once. After
 * all streams, events and memory are closed, tt_async_device_restart makes the device usable again.
 * A stream that hangs is found by tt_async_event_wait with a limit; the caller decides whether
 * tt_async_device_fail follows.
 *
 * Quarantine. What the caller gives up may still run on a GPU, and write. So a device that keeps
 * (tt_async_device_keeps) takes back streams, events and memory without a call of the driver: none
 * of them is freed or used again until the device restarts, or else the process ends. Calls of such
 * streams are not made any more. Other kinds need no quarantine: the host device closes a stream
 * when its function has returned, and on an emulated one nothing happens after a failure.
 *
 * Order. With `order` in the options, every submission states which bytes it reads and writes, and
 * vector clocks find two that conflict without an event between them (device/async_order.h).
 *
 * Threads: one thread at a time submits to a stream, records an event, or uses a pool. Different
 * streams may be used by different threads. Addresses on the device are integers, so that no host
 * code dereferences them by accident; 0 is none. Sizes are bytes, instants are ns.
 *
 * This layer decides nothing: it neither chooses streams nor retries. Implemented in
 * async_device.c. */
#ifndef TT_DEVICE_ASYNC_DEVICE_H
#define TT_DEVICE_ASYNC_DEVICE_H

#include "base/err.h"
#include "base/threads/counter.h"
#include "base/threads/lock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tt_async_device;
struct tt_async_order;

/* What a device is; for people, placement and limits. */
struct tt_async_info {
    char name[128];
    int64_t memory_bytes; /* device memory in total */
    int32_t copy_engines; /* copies that can run at the same time */
    int32_t max_streams;
};

/* Bytes that an operation touches, on the device or in pinned host memory. */
struct tt_async_range {
    uint64_t address;
    size_t bytes;
    bool writes;
};

/* Work of the caller's on a stream. */
struct tt_async_kernel {
    const char *name; /* for messages; static storage */
    /* Host and emulated devices: the work. It runs at its turn in the stream, where
     * tt_async_pointer() is allowed. An error makes the device fail. NULL: it computes nothing. */
    enum tt_err (*run)(struct tt_async_device *device, void *context);
    /* CUDA: puts the work on `native_stream` (a CUstream) before it returns; the context is current
     * on the calling thread. An error is returned to the submitter, with what it says in `why`.
     * NULL: unsupported there. */
    enum tt_err (*enqueue)(struct tt_async_device *device, void *context, void *native_stream,
                           struct tt_error *why);
    void *context; /* valid until the work has ended */
    /* What it touches, for the order checker; valid until the work has ended. */
    const struct tt_async_range *ranges;
    int32_t range_count;
    /* Emulated devices: how long it takes alone (> 0), and its share of the device in millionths.
     * TT_NEVER: it hangs. */
    int64_t work_ns;
    int32_t demand_ppm;
};

/* ---- what the kinds implement ---- */

enum tt_async_op_kind {
    TT_ASYNC_RECORD,
    TT_ASYNC_WAIT,
    TT_ASYNC_COPY_IN,     /* from host memory */
    TT_ASYNC_COPY_OUT,    /* to host memory */
    TT_ASYNC_COPY_WITHIN, /* from device memory to device memory */
    TT_ASYNC_FILL,
    TT_ASYNC_LAUNCH,
    TT_ASYNC_CALL,
};

struct tt_async_event;

/* What is known of a function that is called on a stream. */
enum tt_async_call_kind {
    TT_ASYNC_CALL_ANY,
    TT_ASYNC_CALL_SHORT, /* it returns in microseconds, whatever the sizes are */
    TT_ASYNC_CALL_NOTE,  /* it only notes something, and makes no call of the device but of _now */
};

struct tt_async_op {
    enum tt_async_op_kind kind;
    uint8_t value; /* FILL */
    union {
        struct { /* RECORD, WAIT */
            struct tt_async_event *event;
            uint64_t turn; /* which record of the event */
        };
        struct {               /* COPY, FILL */
            uint64_t to, from; /* device addresses */
            size_t bytes;
            union {
                void *host_to;         /* COPY_OUT */
                const void *host_from; /* COPY_IN */
            };
        };
        struct tt_async_kernel kernel; /* LAUNCH */
        struct {                       /* CALL */
            void (*call)(void *context);
            void *call_context;
            enum tt_async_call_kind call_kind;
        };
    };
};

/* Each kind's structs begin with these. The kind allocates them. */
struct tt_async_stream {
    struct tt_async_device *device;
    int32_t index; /* 0 .. max_streams - 1, unique among open streams */
};

struct tt_async_event {
    struct tt_async_device *device;
    uint64_t turns;  /* number of records so far */
    uint64_t *clock; /* the order checker's; NULL without one */
};

struct tt_async_ops {
    const char *name; /* "host", "emulated", "cuda" */
    void (*close)(struct tt_async_device *take_device);
    enum tt_err (*restart)(struct tt_async_device *device, struct tt_error *why);
    enum tt_err (*reserve)(struct tt_async_device *device, size_t bytes, uint64_t *out_address,
                           struct tt_error *why);
    void (*release)(struct tt_async_device *device, uint64_t address);
    enum tt_err (*pin)(struct tt_async_device *device, size_t bytes, void **out_bytes,
                       struct tt_error *why);
    void (*unpin)(struct tt_async_device *device, void *bytes);
    enum tt_err (*stream_open)(struct tt_async_device *device, int32_t index,
                               struct tt_async_stream **out_stream, struct tt_error *why);
    void (*stream_close)(struct tt_async_stream *take_stream);
    enum tt_err (*event_open)(struct tt_async_device *device, bool is_timed,
                              struct tt_async_event **out_event, struct tt_error *why);
    void (*event_close)(struct tt_async_event *take_event);
    enum tt_err (*submit)(struct tt_async_stream *stream, const struct tt_async_op *op,
                          struct tt_error *why);
    void (*hold)(struct tt_async_device *device); /* see tt_async_hold; NULL: nothing to do */
    void (*let_go)(struct tt_async_device *device);
    enum tt_err (*query)(struct tt_async_event *event, struct tt_error *why);
    enum tt_err (*wait)(struct tt_async_event *event, int64_t until_at, struct tt_error *why);
    enum tt_err (*instant)(struct tt_async_event *event, uint64_t turn, int64_t *out_at,
                           struct tt_error *why);
    int64_t (*now)(struct tt_async_device *device);
    void *(*pointer)(struct tt_async_device *device, uint64_t address); /* NULL: not reachable */
    void (*failed)(struct tt_async_device *device); /* ends all waiting; NULL: nothing to do */
    /* A call that has no effect but shows whether the device works. NULL: failures show at once. */
    enum tt_err (*probe)(struct tt_async_device *device, struct tt_error *why);
    void *(*native)(struct tt_async_stream *stream); /* NULL: kernels are C functions */
    /* See tt_async_device_keeps, tt_async_device_keep. NULL: it keeps nothing. */
    bool (*keeps)(struct tt_async_device *device);
    void (*keep)(struct tt_async_device *device, void *thing);
};

/* First member of each kind's device. The fields are async_device.c's. */
struct tt_async_device {
    const struct tt_async_ops *ops;
    struct tt_async_info info;
    struct tt_async_order *order; /* NULL: not checked */
    struct tt_lock lock;          /* guards the fields below */
    struct tt_counter has_failed; /* 0 or 1; written under the lock, read without */
    struct tt_error reason;
    bool *stream_taken; /* [max_streams] */
    int32_t next_index;
    int32_t streams, events;
    int32_t reservations; /* device and pinned memory */
};

/* Called once by each kind: initialises the fields above; `info` is complete. Takes `take_order`,
 * which may be NULL, also on failure. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_async_device_init(struct tt_async_device *self,
                                               const struct tt_async_ops *ops,
                                               const struct tt_async_info *info,
                                               struct tt_async_order *take_order);
void tt_async_device_fini(struct tt_async_device *self);
/* Runs a kernel on the calling thread, in whose `run` tt_async_pointer() works. */
TT_MUST_CHECK enum tt_err tt_async_kernel_run(struct tt_async_device *self,
                                              const struct tt_async_kernel *kernel);

/* ---- the device ---- */

static inline const struct tt_async_info *tt_async_device_info(const struct tt_async_device *self) {
    return &self->info;
}
/* NULL-safe. All streams, events and memory are closed. */
void tt_async_device_close(struct tt_async_device *take_device);
/* Marks the device as failed; only the first reason counts. For watchdogs. Any thread. */
void tt_async_device_fail(struct tt_async_device *self, const char *reason);
/* True: it has failed, but not by a fault of its own, and its work may go on: what is closed now is
 * kept. Any thread. */
static inline bool tt_async_device_keeps(struct tt_async_device *self) {
    return self->ops->keeps && self->ops->keeps(self);
}
/* It keeps: what the caller has on it besides, and must not free, stays reachable from it. */
static inline void tt_async_device_keep(struct tt_async_device *self, void *thing) {
    self->ops->keep(self, thing);
}
/* It has failed: UNAVAILABLE, and the reason. Any thread. */
enum tt_err tt_async_device_reason(struct tt_async_device *self, struct tt_error *why);
/* OK, or the same. */
static inline enum tt_err tt_async_device_status(struct tt_async_device *self,
                                                 struct tt_error *why) {
    return tt_counter_get(&self->has_failed) == 0 ? TT_OK : tt_async_device_reason(self, why);
}
/* The same, and finds a failure that no call has reported yet: a device that is gone, with work
 * under way and none to come. It may take microseconds. Any thread. */
enum tt_err tt_async_device_probe(struct tt_async_device *self, struct tt_error *why);
/* True: kernels are C functions (`run`). False: they are put on a native stream (`enqueue`). */
static inline bool tt_async_device_runs_kernels(const struct tt_async_device *self) {
    return self->ops->pointer != NULL;
}
/* Makes a failed device usable again; all streams, events and memory are closed. Errors: those of
 * the kind, UNAVAILABLE; the device is then still failed. */
TT_MUST_CHECK enum tt_err tt_async_device_restart(struct tt_async_device *self,
                                                  struct tt_error *why);
/* The device's clock: the monotonic clock, or the virtual one of an emulated device. */
int64_t tt_async_device_now(struct tt_async_device *self);

/* ---- memory ---- */

/* Device memory, aligned to 256 bytes, contents undefined. Start-up only: it may block all streams.
 * Errors: NO_MEMORY (what was asked for, and what there is). */
TT_MUST_CHECK enum tt_err tt_async_reserve(struct tt_async_device *self, size_t bytes,
                                           uint64_t *out_address, struct tt_error *why);
/* No operation that uses it is under way, unless the device has failed; it may be kept. */
void tt_async_release(struct tt_async_device *self, uint64_t address, size_t bytes);
/* Host memory that copies read and write without a copy in between. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_async_pin(struct tt_async_device *self, size_t bytes, void **out_bytes,
                                       struct tt_error *why);
void tt_async_unpin(struct tt_async_device *self, void *take_bytes);
/* Where a kernel finds device memory; NULL: it is not reserved. Only inside `run` of a kernel of
 * this device. With the order checker the device fails if no range of the kernel has the address.
 */
void *tt_async_pointer(struct tt_async_device *self, uint64_t address);
/* States that the caller reads or writes host memory that copies use. Only the order checker looks
 * at it: it reports a copy that the caller has not waited for. */
void tt_async_host_access(struct tt_async_device *self, const void *bytes, size_t count,
                          bool writes);

/* ---- streams and events ---- */

/* Errors: BUSY (max_streams are open), NO_MEMORY, IO. */
TT_MUST_CHECK enum tt_err tt_async_stream_open(struct tt_async_device *self,
                                               struct tt_async_stream **out_stream,
                                               struct tt_error *why);
/* Its operations have ended, or the device has failed. Waits for the operation that runs; on a
 * device that keeps, only for the call that runs, and the rest may go on. */
void tt_async_stream_close(struct tt_async_stream *take_stream);
/* What `enqueue` of a kernel gets; NULL where kernels are C functions. */
static inline void *tt_async_stream_native(struct tt_async_stream *self) {
    const struct tt_async_ops *ops = self->device->ops;
    return ops->native ? ops->native(self) : NULL;
}
TT_MUST_CHECK enum tt_err tt_async_event_open(struct tt_async_device *self,
                                              struct tt_async_event **out_event,
                                              struct tt_error *why);
/* The same, of an event that keeps when it happened. */
TT_MUST_CHECK enum tt_err tt_async_event_open_timed(struct tt_async_device *self,
                                                    struct tt_async_event **out_event,
                                                    struct tt_error *why);
/* No stream waits for it any more, unless the device has failed. */
void tt_async_event_close(struct tt_async_event *take_event);

/* Submissions. Errors of all: UNAVAILABLE (the device has failed), BUSY (the stream's queue is
 * full); then nothing was submitted. */

/* Between the two the calling thread submits operations that belong together, and waits for none:
 * the device may begin them at the end. Pairs may be nested. */
static inline void tt_async_hold(struct tt_async_device *self) {
    if (self->ops->hold)
        self->ops->hold(self);
}
static inline void tt_async_let_go(struct tt_async_device *self) {
    if (self->ops->let_go)
        self->ops->let_go(self);
}
/* Marks this place of the stream. If the event was recorded before, this place comes after that
 * one: on the same stream, or since the stream or the host has waited for it. */
TT_MUST_CHECK enum tt_err tt_async_record(struct tt_async_stream *stream,
                                          struct tt_async_event *event, struct tt_error *why);
/* Later operations of the stream wait until the event, as recorded last, has happened. Of an event
 * never recorded: nothing. */
TT_MUST_CHECK enum tt_err tt_async_wait(struct tt_async_stream *stream,
                                        struct tt_async_event *event, struct tt_error *why);
/* Host memory is pinned, and stays untouched until the copy has ended. */
TT_MUST_CHECK enum tt_err tt_async_copy_in(struct tt_async_stream *stream, uint64_t to,
                                           const void *from, size_t bytes, struct tt_error *why);
TT_MUST_CHECK enum tt_err tt_async_copy_out(struct tt_async_stream *stream, void *to, uint64_t from,
                                            size_t bytes, struct tt_error *why);
TT_MUST_CHECK enum tt_err tt_async_copy_within(struct tt_async_stream *stream, uint64_t to,
                                               uint64_t from, size_t bytes, struct tt_error *why);
TT_MUST_CHECK enum tt_err tt_async_fill(struct tt_async_stream *stream, uint64_t to, uint8_t value,
                                        size_t bytes, struct tt_error *why);
/* Errors: UNSUPPORTED (the kernel has no form for this device); those of `enqueue`. */
TT_MUST_CHECK enum tt_err tt_async_launch(struct tt_async_stream *stream,
                                          const struct tt_async_kernel *kernel,
                                          struct tt_error *why);
/* Calls `call` at its turn, on a thread of the device. Not called if the device fails before. Where
 * kernels are C functions it may submit; CUDA forbids it to call the driver, and to wait for a lock
 * that is held during such calls. */
TT_MUST_CHECK enum tt_err tt_async_call(struct tt_async_stream *stream, void (*call)(void *context),
                                        void *context, struct tt_error *why);
/* The same of a short function: the host device may let other streams wait for it. */
TT_MUST_CHECK enum tt_err tt_async_call_short(struct tt_async_stream *stream,
                                              void (*call)(void *context), void *context,
                                              struct tt_error *why);
/* The same of a note: the host device may call it on the submitting thread, before this returns. */
TT_MUST_CHECK enum tt_err tt_async_call_note(struct tt_async_stream *stream,
                                             void (*call)(void *context), void *context,
                                             struct tt_error *why);

/* Has the event, as recorded last, happened? OK: yes, or never recorded. BUSY: not yet.
 * UNAVAILABLE: the device has failed. Never blocks. */
enum tt_err tt_async_event_query(struct tt_async_event *event, struct tt_error *why);
/* When a timed event happened, on the device's clock; `turn`: its field `turns` behind the record,
 * which is the last one. On a GPU the difference of two instants is exact to a microsecond. The
 * order checker takes no notice. Any thread, but not calls on CUDA's streams. Never blocks for
 * longer than an empty stream takes. Errors: BUSY (not yet), UNAVAILABLE, INTERNAL. */
enum tt_err tt_async_event_instant(struct tt_async_event *event, uint64_t turn, int64_t *out_at,
                                   struct tt_error *why);
/* Waits for it until the instant `until_at` of the device's clock (TT_NEVER: no limit). An emulated
 * device in virtual time advances its clock. Errors: TIMEOUT, UNAVAILABLE. */
TT_MUST_CHECK enum tt_err tt_async_event_wait(struct tt_async_event *event, int64_t until_at,
                                              struct tt_error *why);

#endif

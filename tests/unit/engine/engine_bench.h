/* What tests of engines share: the library, and a place where completions arrive. */
#ifndef ENGINE_BENCH_H
#define ENGINE_BENCH_H

#include "base/threads/eventcount.h"
#include "base/threads/ring.h"
#include "engine/engine.h"
#include "engine/onnxruntime/ort_library.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { BENCH_EXECUTORS = 8, BENCH_DEPTH = 64 };

/* The build tree's library where there is one, else what the engine finds by itself. */
static inline const char *bench_library_path(void) {
    static const char path[] = TUTTI_SOURCE_DIR "/.deps/lib/libonnxruntime.so";
    return access(path, R_OK) == 0 && !getenv("TUTTI_ONNXRUNTIME") ? path : NULL;
}

static inline struct tt_ort_library *bench_library(void) {
    struct tt_ort_library *library = NULL;
    struct tt_error why;
    struct tt_ort_library_options options = {.path = bench_library_path()};
    if (tt_ort_library_open(&options, &library, &why)) {
        fprintf(stderr, "%s\n", why.text);
        exit(1);
    }
    return library;
}

/* Completions, one ring per executor, as an executor's thread is the only one to push there. */
struct bench {
    struct tt_eventcount eventcount;
    struct tt_ring rings[BENCH_EXECUTORS];
};

static inline void bench_init(struct bench *self) {
    tt_eventcount_init(&self->eventcount);
    for (int i = 0; i < BENCH_EXECUTORS; i++)
        if (tt_ring_init(&self->rings[i], BENCH_DEPTH))
            abort();
}

static inline void bench_fini(struct bench *self) {
    for (int i = 0; i < BENCH_EXECUTORS; i++)
        tt_ring_fini(&self->rings[i]);
}

static inline void bench_done(void *context, struct tt_device_task *task) {
    struct bench *self = context;
    if (!tt_ring_push(&self->rings[task->executor], tt_engine_task_of(task)))
        abort();
    tt_eventcount_notify(&self->eventcount);
}

/* The next completed task of any executor. */
static inline struct tt_engine_task *bench_wait(struct bench *self) {
    for (;;) {
        for (int i = 0; i < BENCH_EXECUTORS; i++) {
            struct tt_engine_task *task = tt_ring_pop(&self->rings[i]);
            if (task)
                return task;
        }
        tt_eventcount_wait(&self->eventcount, TT_NEVER);
    }
}

/* Runs one whole-graph task to its end. */
static inline void bench_run(struct bench *self, struct tt_engine_task *task) {
    struct tt_engine *engine = task->model->engine;
    task->head.last_step = engine->ops->step_count(task->model) - 1;
    tt_engine_submit(engine, task);
    if (bench_wait(self) != task)
        abort();
}

#endif

/* What tests of Python models share: a folder with a model, an interpreter, and an engine. */
#ifndef PYTHON_BENCH_H
#define PYTHON_BENCH_H

#include "base/log/log_settings.h"
#include "base/threads/lock.h"
#include "engine/engine_kind.h"
#include "unit/engine/engine_bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

enum { PYTHON_EXECUTORS = 2, PYTHON_LINES = 64, PYTHON_LINE_BYTES = 800 };

extern const struct tt_engine_kind tt_python_engine_kind;

struct python_bench {
    struct bench bench;
    struct tt_engine_runtime runtime;
    struct tt_engine *engine;
    struct tt_engine_model *model;
    char folder[64], version[80], path[100];
    struct tt_lock lock; /* guards the log lines */
    char lines[PYTHON_LINES][PYTHON_LINE_BYTES];
    int32_t line_count;
};

/* An interpreter with numpy: the build tree's where there is one. */
static inline const char *python_interpreter(void) {
    static const char path[] = TUTTI_SOURCE_DIR "/.deps/venv/bin/python3";
    return access(path, X_OK) == 0 ? path : "python3";
}

static inline void python_bench_say(void *context, enum tt_log_level level, const char *line) {
    struct python_bench *self = context;
    (void)level;
    tt_lock_take(&self->lock);
    if (self->line_count < PYTHON_LINES)
        snprintf(self->lines[self->line_count++], PYTHON_LINE_BYTES, "%s", line);
    tt_lock_give(&self->lock);
}

static inline bool python_bench_said(struct python_bench *self, const char *part) {
    bool said = false;
    tt_lock_take(&self->lock);
    for (int32_t i = 0; i < self->line_count; i++)
        said |= strstr(self->lines[i], part) != NULL;
    tt_lock_give(&self->lock);
    return said;
}

static inline void python_bench_write(const struct python_bench *self, const char *text) {
    FILE *file = fopen(self->path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static inline void python_bench_init(struct python_bench *self, const char *interpreter) {
    struct tt_error why;
    struct tt_engine_runtime_options options = {
        .python = interpreter, .max_load_ms = 60000, .say = python_bench_say, .say_context = self};
    struct tt_engine_options engine = {.executor_count = PYTHON_EXECUTORS,
                                       .queue_depth = BENCH_DEPTH,
                                       .done = bench_done,
                                       .done_context = &self->bench};
    *self = (struct python_bench){.folder = "/tmp/tutti-python-XXXXXX"};
    tt_lock_init(&self->lock);
    bench_init(&self->bench);
    assert_non_null(mkdtemp(self->folder));
    snprintf(self->version, sizeof(self->version), "%s/1", self->folder);
    snprintf(self->path, sizeof(self->path), "%s/model.py", self->version);
    assert_int_equal(mkdir(self->version, 0700), 0);
    assert_int_equal(tt_engine_runtime_open(&tt_python_engine_kind, &options, &self->runtime, &why),
                     TT_OK);
    assert_int_equal(tt_engine_open(&self->runtime, &engine, &self->engine, &why), TT_OK);
}

static inline enum tt_err python_bench_load(struct python_bench *self,
                                            const struct tt_signature *signature, int32_t count,
                                            const char *config_json, struct tt_error *why) {
    const struct tt_engine_model_spec spec = {.name = "m",
                                              .path = self->path,
                                              .config_json = config_json,
                                              .signature = signature,
                                              .batched = signature->batched,
                                              .max_batch = signature->max_batch,
                                              .executors = count};
    return tt_engine_load(&self->runtime, self->engine, &spec, &self->model, why);
}

static inline void python_bench_unload(struct python_bench *self) {
    self->engine->ops->unload(self->model);
    self->model = NULL;
}

static inline void python_bench_fini(struct python_bench *self) {
    if (self->model)
        python_bench_unload(self);
    self->engine->ops->close(self->engine);
    tt_engine_runtime_close(&self->runtime);
    bench_fini(&self->bench);
    tt_lock_fini(&self->lock);
    unlink(self->path);
    rmdir(self->version);
    rmdir(self->folder);
}

/* Where no interpreter has numpy, tests of Python models are skipped. */
static inline bool python_is_there(void) {
    char command[200];
    snprintf(command, sizeof(command), "%s -c 'import numpy' 2> /dev/null", python_interpreter());
    return system(command) == 0;
}

#endif

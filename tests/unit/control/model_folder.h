/* A repository of tiny models in a temporary directory, for the tests that load. What is said of
 * them is kept in `said`. */
#ifndef MODEL_FOLDER_H
#define MODEL_FOLDER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/log/log.h"
#include "unit/engine/tiny_onnx.h"

#include <cmocka.h>

static char root[64];
static const char *const roots[] __attribute__((unused)) = {root};
static struct tt_text said;

/* root/name, or root/name/below where `below` is not NULL. */
static void make_directory(const char *name, const char *below) {
    char path[512];
    snprintf(path, sizeof(path), "%s/%s%s%s", root, name, below ? "/" : "", below ? below : "");
    assert_int_equal(mkdir(path, 0755), 0);
}

static void write_bytes(const char *model, const char *file, const void *bytes, size_t count) {
    char path[512];
    snprintf(path, sizeof(path), "%s/%s/%s", root, model, file);
    FILE *to = fopen(path, "w");
    assert_non_null(to);
    assert_int_equal(fwrite(bytes, 1, count, to), count);
    assert_int_equal(fclose(to), 0);
}

/* A model directory with version 1 and these files; NULL: not that file. */
static inline void make_model(const char *name, struct tt_text take_onnx, const char *config,
                              const char *tutti) {
    make_directory(name, NULL);
    make_directory(name, "1");
    write_bytes(name, "1/model.onnx", take_onnx.bytes, take_onnx.length);
    tt_text_fini(&take_onnx);
    if (config)
        write_bytes(name, "config.pbtxt", config, strlen(config));
    if (tutti)
        write_bytes(name, "tutti.pbtxt", tutti, strlen(tutti));
}

static inline struct tt_text negate(int64_t dimension) {
    return tiny_onnx_unary("Neg", TINY_FLOAT, TINY_DIMS(-1, dimension));
}

static inline void say(void *context, enum tt_log_level level, const char *line) {
    (void)level;
    tt_text_printf(context, "%s\n", line);
}

static int set_up(void **state) {
    (void)state;
    snprintf(root, sizeof(root), "/tmp/tutti-loader-XXXXXX");
    tt_text_init(&said);
    return mkdtemp(root) ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof(command), "rm -r '%s'", root);
    tt_text_fini(&said);
    return system(command);
}

#endif

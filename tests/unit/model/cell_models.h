/* Models of cells for tests: a temporary folder, ONNX files of nothing but inputs and outputs, and
 * what tutti.pbtxt says about them. */
#ifndef TT_TESTS_CELL_MODELS_H
#define TT_TESTS_CELL_MODELS_H

#include "model/cells/cells.h"
#include "unit/model/onnx_builder.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static char cell_home[64]; /* the model's directory */

static inline int make_cell_home(void **state) {
    (void)state;
    char version[80];
    strcpy(cell_home, "/tmp/tutti-cells-XXXXXX");
    if (!mkdtemp(cell_home))
        return -1;
    snprintf(version, sizeof(version), "%s/1", cell_home);
    return mkdir(version, 0755);
}

static inline int remove_cell_home(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof(command), "rm -rf '%s'", cell_home);
    return system(command);
}

static inline void put_bytes(const char *name, const void *bytes, size_t length) {
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", cell_home, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

/* `spec` is "in:token:7:N out:h:1:N,8 ..." (name, ONNX's number of the element type, dimensions).
 * Another `salt` makes other weights. */
static inline void put_cell_file(const char *name, const char *tensors, const char *salt) {
    struct tt_text graph = {0}, model = {0};
    char copy[1024], path[128], *rest = copy;
    snprintf(copy, sizeof(copy), "%s", tensors);
    for (char *one; (one = strsep(&rest, " "));) {
        char *role = strsep(&one, ":"), *tensor = strsep(&one, ":"), *type = strsep(&one, ":");
        onnx_value(&graph, strcmp(role, "in") == 0 ? 11 : 12, tensor, atoi(type), one);
    }
    onnx_initializer(&graph, salt);
    onnx_model(&model, &graph);
    snprintf(path, sizeof(path), "1/%s", name);
    put_bytes(path, model.bytes, model.length);
    tt_text_fini(&model);
}

/* The usual files: cells of a chain, of a sequence-to-sequence model and of a tree. */
static inline void put_cell_files(void) {
    static const char lstm[] = "in:token:7:N in:h:1:N,4 in:c:1:N,4 out:h_out:1:N,4 out:c_out:1:N,4";
    put_cell_file("lstm.onnx", lstm, "lstm");
    put_cell_file("encoder.onnx", lstm, "encoder");
    put_cell_file("decoder.onnx",
                  "in:previous:7:N in:h:1:N,4 in:c:1:N,4 out:word:7:N out:h_out:1:N,4 "
                  "out:c_out:1:N,4",
                  "decoder");
    put_cell_file("leaf.onnx", "in:token:7:N out:h:1:N,4 out:c:1:N,4", "leaf");
    put_cell_file("inner.onnx",
                  "in:lh:1:N,4 in:lc:1:N,4 in:rh:1:N,4 in:rc:1:N,4 out:h:1:N,4 out:c:1:N,4",
                  "inner");
}

#define STATES "state { output: 'h_out' input: 'h' } state { output: 'c_out' input: 'c' } "
#define READ "read { input: 'token' from: 'tokens' below: 100 } "
#define CHAIN "cell { file: 'lstm.onnx' " READ STATES "} "
#define SEQ2SEQ                                                                                    \
    "cell { file: 'encoder.onnx' " READ STATES "} "                                                \
    "cell { file: 'decoder.onnx' " STATES                                                          \
    "state { output: 'word' input: 'previous' initial: 1 } emit: 'word' } "
#define TREE                                                                                       \
    "cell { file: 'leaf.onnx' " READ "state { output: 'h' } state { output: 'c' } } "              \
    "cell { file: 'inner.onnx' state { output: 'h' input: 'lh' input: 'rh' } "                     \
    "state { output: 'c' input: 'lc' input: 'rc' } } "

/* A cell that reads four tokens, and a decoder for it. CHUNKS is open: "emit: ... }" or "}"
 * follows.
 */
static inline void put_chunk_files(void) {
    put_cell_file("chunk.onnx", "in:token:7:N,4 in:h:1:N,4 out:h_out:1:N,4", "chunk");
    put_cell_file("writer.onnx", "in:previous:7:N in:h:1:N,4 out:word:7:N out:h_out:1:N,4",
                  "writer");
}

#define CHUNKS                                                                                     \
    "cell { file: 'chunk.onnx' elements: 4 "                                                       \
    "read { input: 'token' from: 'tokens' below: 100 fill: -1 } "                                  \
    "state { output: 'h_out' input: 'h' } "
#define WRITER                                                                                     \
    "cell { file: 'writer.onnx' state { output: 'h_out' input: 'h' } "                             \
    "state { output: 'word' input: 'previous' initial: 1 } emit: 'word' } "

/* NULL if there are problems, which are in `*findings`. `text` is tutti.pbtxt. */
static inline struct tt_cells *try_cells(const char *text, struct tt_findings *findings) {
    char path[128], version[128];
    struct tt_model_settings *settings = NULL;
    struct tt_cells *cells = NULL;
    put_bytes("tutti.pbtxt", text, strlen(text));
    snprintf(path, sizeof(path), "%s/tutti.pbtxt", cell_home);
    snprintf(version, sizeof(version), "%s/1", cell_home);
    assert_int_equal(tt_model_settings_open(path, &settings, findings), TT_OK);
    if (!settings)
        return NULL;
    assert_int_equal(tt_cells_open(settings, cell_home, version, &cells, findings), TT_OK);
    tt_model_settings_free(settings);
    return cells;
}

static inline struct tt_cells *open_cells(const char *text) {
    struct tt_findings findings = {0};
    struct tt_cells *cells = try_cells(text, &findings);
    if (!cells)
        fail_msg("%s", tt_findings_first_problem(&findings));
    tt_findings_fini(&findings);
    return cells;
}

/* Asserts that some problem contains this text. */
static inline void assert_problem(const char *text, const char *expected) {
    struct tt_findings findings = {0};
    struct tt_cells *cells = try_cells(text, &findings);
    tt_cells_close(cells); /* the settings may have reported it */
    if (findings.problem_count == 0)
        fail_msg("no problem with %s", text);
    bool found = false;
    for (int32_t i = 0; i < findings.count; i++)
        found |= strstr(findings.items[i].sentence, expected) != NULL;
    for (int32_t i = 0; i < findings.count && !found; i++)
        print_error("problem: %s\n", findings.items[i].sentence);
    if (!found)
        fail_msg("no problem says: %s", expected);
    tt_findings_fini(&findings);
}

#endif

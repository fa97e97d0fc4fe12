/* C1: the cells of tutti.pbtxt, checked against their files. */
#include "model/cells/cells.h"

#include "model/repository/repository.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "unit/model/cell_models.h"
#include "unit/model/engines.h"

static void test_a_chain(void **state) {
    (void)state;
    put_cell_files();
    struct tt_cells *cells = open_cells(CHAIN "unfold { kind: CHAIN answer: 'h_out' }");
    const struct tt_cell_type *type = &cells->types[0];
    assert_int_equal(cells->type_count, 1);
    assert_string_equal(type->name, "lstm");
    assert_int_equal(type->max_batch, TT_CELLS_DEFAULT_MAX_BATCH);
    assert_int_equal(type->min_batch, 1);
    assert_int_equal(type->arity, 1);
    assert_int_equal(type->state_count, 2);
    assert_int_equal(type->states[0].output, 0);
    assert_int_equal(type->states[0].inputs[0], 1);
    assert_int_equal(type->states[1].inputs[0], 2);
    assert_int_equal(type->read_count, 1);
    assert_int_equal(type->reads[0].below, 100);
    assert_int_equal(type->emit, -1);
    assert_int_equal(type->answers[0], 0);
    assert_int_equal(type->readable, 1);
    const struct tt_signature *signature = &cells->signature;
    assert_true(signature->batched);
    assert_int_equal(signature->max_batch, TT_CELLS_DEFAULT_MAX_BATCH);
    assert_int_equal(signature->input_count, 1);
    assert_string_equal(signature->inputs[0].name, "tokens");
    assert_int_equal(signature->inputs[0].dtype, TT_DTYPE_INT64);
    assert_int_equal(signature->inputs[0].shape.rank, 2);
    assert_int_equal(signature->output_count, 1);
    assert_int_equal(signature->outputs[0].shape.rank, 2);
    assert_int_equal(signature->outputs[0].shape.dims[1], 4);
    assert_false(tt_cells_is_emitted(cells, 0));
    tt_cells_close(cells);
}

static void test_everything_is_the_answer_where_nothing_is_written(void **state) {
    (void)state;
    put_cell_files();
    struct tt_cells *cells = open_cells(CHAIN "unfold { }");
    assert_int_equal(cells->signature.output_count, 2);
    tt_cells_close(cells);
}

static void test_what_is_emitted_is_a_row_of_answers(void **state) {
    (void)state;
    put_cell_files();
    struct tt_cells *cells = open_cells(SEQ2SEQ "unfold { kind: SEQ2SEQ eos: 2 eos: 3 }");
    assert_int_equal(cells->signature.output_count, 1);
    assert_string_equal(cells->signature.outputs[0].name, "word");
    assert_int_equal(cells->signature.outputs[0].shape.rank, 2);
    assert_int_equal(cells->signature.outputs[0].shape.dims[1], -1);
    assert_true(tt_cells_is_emitted(cells, 0));
    assert_true(tt_cells_is_end(cells, 3));
    assert_false(tt_cells_is_end(cells, 1));
    assert_int_equal(cells->types[0].answers[0], -1);
    assert_int_equal(cells->types[1].answers[0], 0);
    assert_int_equal(cells->types[1].states[2].initial, 1);
    assert_int_equal(cells->types[1].readable, 3);
    tt_cells_close(cells);
}

/* L3 */
static void test_how_long_outputs_are(void **state) {
    (void)state;
    put_cell_files();
    struct tt_cells *cells = open_cells(SEQ2SEQ "unfold { kind: SEQ2SEQ eos: 2 "
                                                "output_length { percent: 50 length: 11 } "
                                                "output_length { percent: 90 length: 31 } }");
    assert_int_equal(cells->output_quantiles[0], 1);
    assert_int_equal(cells->output_quantiles[10], 3);
    assert_int_equal(cells->output_quantiles[50], 11);
    assert_int_equal(cells->output_quantiles[51], 12); /* 11.5 */
    assert_int_equal(cells->output_quantiles[90], 31);
    assert_int_equal(cells->output_quantiles[91], 0); /* no limit known */
    tt_cells_close(cells);
    cells = open_cells(SEQ2SEQ "unfold { kind: SEQ2SEQ eos: 2 }");
    assert_int_equal(cells->output_quantiles[50], 0);
    tt_cells_close(cells);
}

static void test_a_tree_asks_for_its_children(void **state) {
    (void)state;
    put_cell_files();
    struct tt_cells *cells = open_cells(TREE "unfold { kind: TREE }");
    assert_int_equal(cells->child_count, 2);
    assert_string_equal(cells->signature.inputs[cells->children[0]].name, "left");
    assert_string_equal(cells->signature.inputs[cells->children[1]].name, "right");
    assert_int_equal(cells->types[0].answers[0], 0);
    assert_int_equal(cells->types[0].arity, 0);
    assert_int_equal(cells->types[1].readable, 3);
    tt_cells_close(cells);
}

/* Clients see elements, whatever a cell reads of them at once. */
static void test_a_cell_reads_several_elements(void **state) {
    (void)state;
    put_chunk_files();
    static const char text[] = "cell { file: 'chunk.onnx' elements: 4 "
                               "read { input: 'token' from: 'tokens' fill: %d } "
                               "state { output: 'h_out' input: 'h' } } unfold { }";
    char digests[2][TT_DIGEST_BYTES], filled[512];
    for (int32_t fill = 0; fill < 2; fill++) {
        snprintf(filled, sizeof(filled), text, fill);
        struct tt_cells *cells = open_cells(filled);
        assert_int_equal(cells->types[0].elements, 4);
        assert_int_equal(cells->types[0].reads[0].fill, fill);
        assert_int_equal(cells->signature.inputs[0].shape.rank, 2);
        assert_int_equal(cells->signature.inputs[0].shape.dims[1], -1);
        assert_int_equal(tt_cells_rounds(cells, 1), 1);
        assert_int_equal(tt_cells_rounds(cells, 4), 1);
        assert_int_equal(tt_cells_rounds(cells, 5), 2);
        assert_int_equal(tt_cells_rounds(cells, INT32_MAX), 1 << 29);
        strcpy(digests[fill], cells->types[0].digest);
        tt_cells_close(cells);
    }
    assert_string_not_equal(digests[0], digests[1]); /* it is wiring */
    put_cell_file("sound.onnx", "in:x:1:N,4,3 in:h:1:N,4 out:y:1:N,4", "");
    struct tt_cells *cells = open_cells("cell { file: 'sound.onnx' elements: 4 read { input: 'x' } "
                                        "state { output: 'y' input: 'h' } } unfold { }");
    const struct tt_shape *shape = &cells->signature.inputs[0].shape;
    assert_int_equal(shape->rank, 3);
    assert_int_equal(shape->dims[1], -1);
    assert_int_equal(shape->dims[2], 3);
    tt_cells_close(cells);
}

static void test_bad_elements(void **state) {
    (void)state;
    put_cell_files();
    put_chunk_files();
    put_cell_file("half.onnx", "in:x:10:N,4 in:h:1:N,4 out:y:1:N,4", "");
    put_cell_file("byte.onnx", "in:x:2:N,4 in:h:1:N,4 out:y:1:N,4", "");
    static const char more[] = "state { output: 'y' input: 'h' } } unfold { }";
    char half[512], byte[512];
    snprintf(half, sizeof(half),
             "cell { file: 'half.onnx' elements: 4 read { input: 'x' fill: 1 } %s", more);
    snprintf(byte, sizeof(byte),
             "cell { file: 'byte.onnx' elements: 4 read { input: 'x' fill: 256 } %s", more);
    const struct {
        const char *text, *problem;
    } cases[] = {
        {"\ncell { file: 'lstm.onnx' elements: 4097 " READ STATES "} unfold { }",
         "tutti.pbtxt:2:26: elements is 4097; 1 to 4096 are possible"},
        {"cell { file: 'lstm.onnx' elements: -1 " READ STATES "} unfold { }",
         "elements is -1; 1 to 4096 are possible"},
        {"cell { file: 'lstm.onnx' elements: 4 " READ STATES "} unfold { }", "input 'token' of"},
        {"cell { file: 'lstm.onnx' elements: 4 " READ STATES "} unfold { }",
         "has shape [-1]; cell 'lstm' reads 4 elements, so that its second dimension is to be 4"},
        {"cell { file: 'chunk.onnx' elements: 3 read { input: 'token' } "
         "state { output: 'h_out' input: 'h' } } unfold { }",
         "has shape [-1,4]; cell 'chunk' reads 3 elements"},
        {"cell { file: 'leaf.onnx' elements: 2 " READ
         "state { output: 'h' } state { output: 'c' } } "
         "cell { file: 'inner.onnx' state { output: 'h' input: 'lh' input: 'rh' } "
         "state { output: 'c' input: 'lc' input: 'rc' } } unfold { kind: TREE }",
         "only the cell of a CHAIN and the encoder of SEQ2SEQ read several elements"},
        {CHUNKS "} unfold { kind: PLUGIN plugin: 'x.so' }", "only the cell of a CHAIN"},
        {CHUNKS "} cell { file: 'writer.onnx' elements: 2 state { output: 'h_out' input: 'h' } "
                "state { output: 'word' input: 'previous' } emit: 'word' } "
                "unfold { kind: SEQ2SEQ }",
         "only the cell of a CHAIN"},
        {"cell { file: 'lstm.onnx' elements: 2 " STATES "} unfold { }",
         "cell 'lstm' reads nothing of the request"},
        {"cell { file: 'lstm.onnx' read { input: 'token' fill: 3 } " STATES "} unfold { }",
         "cell 'lstm' reads one element at a time, so that there is nothing to fill"},
        {half, "input 'x' is FP16, which cannot be filled with 1, only with 0"},
        {byte, "input 'x' is UINT8, which cannot be filled with 256"},
    };
    for (size_t i = 0; i < TT_COUNT(cases); i++)
        assert_problem(cases[i].text, cases[i].problem);
}

/* C1: the digest covers definition, weights, shapes and wiring, and nothing else. */
static void test_the_digest_tells_types_apart(void **state) {
    (void)state;
    put_cell_files();
    static const char cell[] = "in:token:7:N in:h:1:N,4 in:c:1:N,4 out:h_out:1:N,4 out:c_out:1:N,4";
    put_cell_file("same.onnx", cell, "lstm");
    put_cell_file("other.onnx", cell, "other weights");
    struct tt_findings findings = {0};
    struct tt_cells *cells = try_cells(
        CHAIN "cell { file: 'same.onnx' max_batch: 7 " READ STATES "} "
              "cell { file: 'other.onnx' " READ STATES "} "
              "cell { file: 'same.onnx' name: 'wired' " READ
              "state { output: 'c_out' input: 'h' } state { output: 'h_out' input: 'c' }"
              "} "
              "cell { file: 'same.onnx' name: 'emits' " READ STATES "emit: 'h_out' } "
              "unfold { kind: PLUGIN plugin: '" TUTTI_BUILD_DIR "/tests/plugins/faulty.so' }",
        &findings);
    assert_non_null(cells);
    const struct tt_cell_type *types = cells->types;
    assert_int_equal(strlen(types[0].digest), TT_DIGEST_BYTES - 1);
    assert_string_equal(types[0].digest, types[1].digest);
    for (int32_t i = 2; i < cells->type_count; i++)
        assert_string_not_equal(types[0].digest, types[i].digest);
    assert_int_equal(findings.count, 1);
    assert_non_null(strstr(findings.items[0].sentence, "cells 'lstm' and 'same' are the same"));
    tt_findings_fini(&findings);
    tt_cells_close(cells);
}

/* Weights in another file count, too. */
static void test_the_digest_sees_external_weights(void **state) {
    (void)state;
    struct tt_text graph = {0}, model = {0}, tensor = {0}, pair = {0};
    onnx_value(&graph, 11, "x", 1, "N,4");
    onnx_value(&graph, 11, "h", 1, "N,4");
    onnx_value(&graph, 12, "y", 1, "N,4");
    onnx_bytes(&tensor, 8, "w", 1);
    onnx_bytes(&pair, 1, "location", 8);
    onnx_bytes(&pair, 2, "weights.bin", 11);
    onnx_message(&tensor, 13, &pair);
    onnx_message(&graph, 5, &tensor);
    onnx_model(&model, &graph);
    put_bytes("1/cell.onnx", model.bytes, model.length);
    tt_text_fini(&model);
    static const char text[] = "cell { file: 'cell.onnx' read { input: 'x' } "
                               "state { output: 'y' input: 'h' } } unfold { }";
    assert_problem(text, "weights.bin");
    char digests[2][TT_DIGEST_BYTES];
    for (int i = 0; i < 2; i++) {
        put_bytes("1/weights.bin", i ? "1234" : "5678", 4);
        struct tt_cells *cells = open_cells(text);
        strcpy(digests[i], cells->types[0].digest);
        tt_cells_close(cells);
    }
    assert_string_not_equal(digests[0], digests[1]);
}

static void test_problems_name_the_place(void **state) {
    (void)state;
    put_cell_files();
    static const char lstm[] = "cell { file: 'lstm.onnx' ";
    char text[1024];
    const struct {
        const char *text, *problem;
    } cases[] = {
        {CHAIN, "cells need unfold"},
        {"unfold { }", "unfold needs cells"},
        {CHAIN "unfold { output_length { percent: 50 length: 3 } }", "is for SEQ2SEQ"},
        {SEQ2SEQ "unfold { kind: SEQ2SEQ output_length { percent: 50 length: 9 } "
                 "output_length { percent: 40 length: 10 } }",
         "percents ascend"},
        {SEQ2SEQ "unfold { kind: SEQ2SEQ output_length { percent: 50 length: 9 } "
                 "output_length { percent: 60 length: 8 } }",
         "do not descend"},
        {SEQ2SEQ "unfold { kind: SEQ2SEQ output_length { percent: 101 length: 9 } }", "up to 100"},
        {CHAIN "unfold { } stages { count: 2 }", "not cut into stages"},
        {"cell { " READ STATES "} unfold { }", "name of its ONNX file"},
        {"cell { file: '../lstm.onnx' } unfold { }", "without directories"},
        {"cell { file: 'lost.onnx' } unfold { }", "lost.onnx"},
        {"\ncell { file: 'lstm.onnx' " READ "state { output: 'h_out' input: 'hh' } } unfold { }",
         "tutti.pbtxt:2:"},
        {"cell { file: 'lstm.onnx' " READ "state { output: 'h_out' input: 'hh' } } unfold { }",
         "has no input 'hh'; it has: 'token', 'h', 'c'"},
        {"cell { file: 'lstm.onnx' " READ "state { output: 'x' input: 'h' } } unfold { }",
         "has no output 'x'"},
        {"cell { file: 'lstm.onnx' " READ "state { output: 'h_out' input: 'h' } } unfold { }",
         "input 'c' of"},
        {"cell { file: 'lstm.onnx' " READ READ STATES "} unfold { }", "used twice"},
        {"cell { file: 'lstm.onnx' " READ STATES "state { output: 'h_out' } } unfold { }",
         "is two states"},
        {"cell { file: 'lstm.onnx' " READ "state { output: 'h_out' input: 'h' input: 'c' } "
         "state { output: 'c_out' } } unfold { }",
         "one per cell that is read"},
        {"cell { file: 'lstm.onnx' state { output: 'h_out' input: 'token' } } unfold { }",
         "cannot be one state"},
        {"cell { file: 'lstm.onnx' read { input: 'h' below: 3 } } unfold { }", "below"},
        {"cell { file: 'lstm.onnx' " READ STATES "emit: 'x' } unfold { }", "has no output 'x'"},
        {"cell { file: 'lstm.onnx' max_batch: -1 " READ STATES "} unfold { }", "max_batch is -1"},
        {"cell { file: 'lstm.onnx' max_batch: 4 min_batch: 5 " READ STATES "} unfold { }",
         "min_batch is 5"},
        {CHAIN CHAIN "unfold { kind: PLUGIN plugin: 'x.so' }", "two cells are named 'lstm'"},
        {CHAIN "unfold { kind: TREE }", "TREE wants two cells"},
        {SEQ2SEQ "unfold { kind: CHAIN }", "CHAIN wants one cell"},
        {TREE "unfold { kind: SEQ2SEQ }", "in this place it is to read 1"},
        {SEQ2SEQ "unfold { kind: TREE }", "in this place it is to read 0"},
        {TREE "unfold { kind: TREE children: 'a' children: 'b' children: 'c' }",
         "in this place it is to read 3"},
        {TREE "unfold { kind: TREE children: 'a' children: 'a' }", "listed twice"},
        {TREE "unfold { kind: TREE children: 'tokens' children: 'b' }", "read by a cell"},
        {CHAIN "unfold { answer: 'x' }", "has no output 'x'"},
        {CHAIN "unfold { answer: 'h_out' answer: 'h_out' }", "listed twice"},
        {CHAIN "unfold { eos: 2 }", "there is none in this model"},
        {CHAIN "unfold { max_length: -3 }", "max_length is -3"},
        {SEQ2SEQ "unfold { kind: SEQ2SEQ threshold: -3 }", "threshold is -3"},
        {SEQ2SEQ "unfold { kind: SEQ2SEQ max_output: -3 }", "max_output is 0"},
        {CHAIN "unfold { kind: PLUGIN max_cells: 2000000 }", "max_cells is 2000000"},
        {CHAIN "unfold { threshold: 3 }", "threshold is for kind: SEQ2SEQ, and the kind is CHAIN"},
        {TREE "unfold { kind: TREE max_output: 3 }", "max_output is for kind: SEQ2SEQ"},
        {SEQ2SEQ "unfold { kind: SEQ2SEQ children: 'l' }", "children is for kind: TREE"},
        {CHAIN "unfold { plugin: 'x.so' }", "plugin is for kind: PLUGIN, and the kind is CHAIN"},
        {CHAIN "unfold { parameter: 'x' }", "parameter is for kind: PLUGIN"},
        {CHAIN "unfold { input: 'x' }", "input is for kind: PLUGIN"},
        {TREE "unfold { kind: TREE max_cells: 3 }", "max_cells is for kind: PLUGIN"},
        {CHAIN "unfold { time_limit_us: 3 }", "time_limit_us is for kind: PLUGIN"},
        {CHAIN "unfold { kind: 9 }", "9"},
    };
    for (size_t i = 0; i < TT_COUNT(cases); i++)
        assert_problem(cases[i].text, cases[i].problem);
    snprintf(text, sizeof(text), "%s%s", lstm, "state { output: 'h_out' input: 'h' } } unfold { }");
    assert_problem(text, "neither a state nor read");
}

/* A cache is begun once per request, and is neither shared with other models nor sent. */
static void test_states_in_place(void **state) {
    (void)state;
    put_cell_files();
#define CACHE "state { output: 'h_out' input: 'h' in_place: true } "
#define OTHER "state { output: 'c_out' input: 'c' } "
    static const char encoder[] = "cell { file: 'encoder.onnx' " READ CACHE OTHER "} ";
    static const char decoder[] = "state { output: 'word' input: 'previous' } emit: 'word' } "
                                  "unfold { kind: SEQ2SEQ }";
    char text[1024];
    snprintf(text, sizeof(text), "%scell { file: 'decoder.onnx' %s%s%s", encoder, CACHE, OTHER,
             decoder);
    struct tt_cells *cells = open_cells(text);
    for (int32_t t = 0; t < 2; t++) {
        assert_true(cells->types[t].has_cache);
        assert_true(cells->types[t].states[0].in_place);
        assert_false(cells->types[t].states[1].in_place);
        assert_int_equal(tt_cells_key(cells, t), 0);
        assert_int_equal(tt_cell_type_cache_bytes(&cells->types[t]), 4 * 4);
    }
    tt_cells_close(cells);
    snprintf(text, sizeof(text), "%scell { file: 'decoder.onnx' %s%s%s", encoder,
             "state { output: 'h_out' input: 'h' } ", OTHER, decoder);
    assert_problem(text, "cells 'encoder' and 'decoder' must have the same states in place");
    snprintf(text, sizeof(text),
             "cell { file: 'encoder.onnx' %s state { output: 'h_out' input: 'h' } %s} "
             "cell { file: 'decoder.onnx' %s%s%s",
             READ, OTHER, CACHE, OTHER, decoder);
    assert_problem(text, "cells 'encoder' and 'decoder' must have the same states in place");
    assert_problem("cell { file: 'lstm.onnx' " READ CACHE OTHER "} unfold { }",
                   "output 'h_out' of cell 'lstm' is a state in place, which is no answer");
    assert_problem("cell { file: 'lstm.onnx' " READ CACHE OTHER
                   "emit: 'h_out' } unfold { answer: 'c_out' }",
                   "which cannot be emitted");
    assert_problem("cell { file: 'lstm.onnx' " READ CACHE OTHER
                   "} unfold { kind: PLUGIN plugin: 'x.so' }",
                   "which are for kinds CHAIN and SEQ2SEQ, and the kind is PLUGIN");
#undef CACHE
#undef OTHER
}

static void test_files_that_do_not_fit(void **state) {
    (void)state;
    put_cell_files();
    static const char cell[] = "cell { file: 'odd.onnx' read { input: 'x' } "
                               "state { output: 'y' input: 'h' } } unfold { }";
    put_cell_file("odd.onnx", "in:x:1:N,4 in:h:1:2,4 out:y:1:N,4", "");
    assert_problem(cell, "input 'h' has shape [2,4]");
    put_cell_file("odd.onnx", "in:x:1:N,S in:h:1:N,4 out:y:1:N,4", "");
    assert_problem(cell, "input 'x' has shape [-1,-1]");
    put_cell_file("odd.onnx", "in:x:8:N,4 in:h:1:N,4 out:y:1:N,4", "");
    assert_problem(cell, "strings");
    put_cell_file("odd.onnx", "in:x:1:N,4 in:h:1:N,5 out:y:1:N,4", "");
    assert_problem(cell, "cannot be one state");
    put_bytes("1/odd.onnx", "no ONNX", 7);
    assert_problem(cell, "odd.onnx: not a readable ONNX file");
    put_cell_file("wide.onnx",
                  "in:previous:7:N in:h:1:N,5 in:c:1:N,4 out:word:7:N out:h_out:1:N,5 "
                  "out:c_out:1:N,4",
                  "");
    assert_problem("cell { file: 'encoder.onnx' " READ STATES "} cell { file: 'wide.onnx' " STATES
                   "state { output: 'word' input: 'previous' } emit: 'word' } "
                   "unfold { kind: SEQ2SEQ }",
                   "the states of 'wide' differ");
    assert_problem("cell { file: 'encoder.onnx' " READ STATES
                   "} cell { file: 'decoder.onnx' " STATES
                   "read { input: 'previous' } emit: 'word' } unfold { kind: SEQ2SEQ }",
                   "its own words are a state");
    assert_problem("cell { file: 'encoder.onnx' " READ STATES
                   "} cell { file: 'decoder.onnx' " STATES
                   "state { output: 'word' input: 'previous' } } unfold { kind: SEQ2SEQ }",
                   "emits nothing");
    assert_problem("cell { file: 'encoder.onnx' " READ STATES
                   "} cell { file: 'decoder.onnx' " STATES
                   "state { output: 'word' input: 'previous' } emit: 'h_out' } "
                   "unfold { kind: SEQ2SEQ eos: 2 }",
                   "is to be compared with eos");
}

static struct tt_repository *scan(void) {
    char parent[64];
    struct tt_repository *repository = NULL;
    struct tt_error why = {""};
    snprintf(parent, sizeof(parent), "%s", "/tmp");
    if (tt_repository_scan_model(parent, strrchr(cell_home, '/') + 1, test_engines(), NULL, 64,
                                 &repository, &why))
        fail_msg("%s", why.text);
    return repository;
}

/* config.pbtxt may list tensors in its own order, and only some outputs. */
static void test_the_configuration_orders_tensors(void **state) {
    (void)state;
    put_cell_files();
    static const char settings[] = TREE "unfold { kind: TREE }";
    put_bytes("tutti.pbtxt", settings, strlen(settings));
    static const char config[] = "input { name: 'right' } input { name: 'tokens' } "
                                 "input { name: 'left' } output { name: 'c' }";
    put_bytes("config.pbtxt", config, strlen(config));
    struct tt_repository *repository = scan();
    const struct tt_repository_model *model = &repository->models[0];
    if (!tt_repository_model_ok(model))
        fail_msg("%s", tt_findings_first_problem(&model->findings));
    const struct tt_cells *cells = model->versions[0].cells;
    assert_non_null(cells);
    assert_string_equal(cells->signature.inputs[0].name, "right");
    assert_int_equal(cells->children[0], 2);
    assert_int_equal(cells->children[1], 0);
    assert_int_equal(cells->types[0].reads[0].from, 1);
    assert_int_equal(cells->signature.output_count, 1);
    assert_int_equal(cells->types[0].answers[0], 1);
    assert_int_equal(cells->types[1].answers[0], 1);
    assert_int_equal(model->config->signature.max_batch, 64);
    assert_memory_equal(&cells->signature, &model->config->signature, sizeof(cells->signature));
    tt_repository_free(repository);
}

static void test_a_repository_reports_cells(void **state) {
    (void)state;
    put_cell_files();
    static const char settings[] = TREE "unfold { kind: TREE }";
    put_bytes("tutti.pbtxt", settings, strlen(settings));
    struct tt_repository *repository = scan();
    const struct tt_cells *cells = repository->models[0].versions[0].cells;
    struct tt_text text = {0}, json = {0};
    tt_repository_report(repository, &text);
    assert_non_null(strstr(text.bytes, "cell   leaf, batches of up to 64, reads 0 others, "));
    assert_non_null(strstr(text.bytes, "cell   inner, batches of up to 64, reads 2 others, "));
    assert_int_equal(tt_repository_report_json(repository, &json), TT_OK);
    assert_non_null(strstr(json.bytes, cells->types[1].digest));
    tt_text_fini(&text);
    tt_text_fini(&json);
    tt_repository_free(repository);
}

static void test_a_repository_says_what_is_wrong(void **state) {
    (void)state;
    put_cell_files();
    static const char settings[] = CHAIN "unfold { }";
    put_bytes("tutti.pbtxt", settings, strlen(settings));
    const struct {
        const char *config, *problem;
    } cases[] = {
        {"input { name: 'token' }", "did you mean 'tokens'?"},
        {"max_batch_size: 0", "max_batch_size is 0"},
        {"output { name: 'h_out' dims: [ 2, 2 ] reshape { shape: [ 4 ] } }", "reshaped"},
    };
    for (size_t i = 0; i < TT_COUNT(cases); i++) {
        put_bytes("config.pbtxt", cases[i].config, strlen(cases[i].config));
        struct tt_repository *repository = scan();
        const char *first = tt_findings_first_problem(&repository->models[0].findings);
        if (!strstr(first, cases[i].problem))
            fail_msg("'%s' does not say: %s", first, cases[i].problem);
        tt_repository_free(repository);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_chain, make_cell_home, remove_cell_home),
        cmocka_unit_test_setup_teardown(test_everything_is_the_answer_where_nothing_is_written,
                                        make_cell_home, remove_cell_home),
        cmocka_unit_test_setup_teardown(test_what_is_emitted_is_a_row_of_answers, make_cell_home,
                                        remove_cell_home),
        cmocka_unit_test_setup_teardown(test_how_long_outputs_are, make_cell_home,
                                        remove_cell_home),
        cmocka_unit_test_setup_teardown(test_a_tree_asks_for_its_children, make_cell_home,
                                        remove_cell_home),
        cmocka_unit_test_setup_teardown(test_a_cell_reads_several_elements, make_cell_home,
                                        remove_cell_home),
        cmocka_unit_test_setup_teardown(test_bad_elements, make_cell_home, remove_cell_home),
        cmocka_unit_test_setup_teardown(test_the_digest_tells_types_apart, make_cell_home,
                                        remove_cell_home),
        cmocka_unit_test_setup_teardown(test_the_digest_sees_external_weights, make_cell_home,
                                        remove_cell_home),
        cmocka_unit_test_setup_teardown(test_problems_name_the_place, make_cell_home,
                                        remove_cell_home),
        cmocka_unit_test_setup_teardown(test_states_in_place, make_cell_home, remove_cell_home),
        cmocka_unit_test_setup_teardown(test_files_that_do_not_fit, make_cell_home,
                                        remove_cell_home),
        cmocka_unit_test_setup_teardown(test_the_configuration_orders_tensors, make_cell_home,
                                        remove_cell_home),
        cmocka_unit_test_setup_teardown(test_a_repository_reports_cells, make_cell_home,
                                        remove_cell_home),
        cmocka_unit_test_setup_teardown(test_a_repository_says_what_is_wrong, make_cell_home,
                                        remove_cell_home),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

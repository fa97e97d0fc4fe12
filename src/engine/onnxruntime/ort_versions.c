#include "engine/onnxruntime/ort_versions.h"

#include "base/text.h"
#include "engine/onnxruntime/ort_check.h"
#include "engine/onnxruntime/ort_session.h"
#include "onnx.pb-c.h"

enum { USUAL_IR = 8, USUAL_OPSET = 17 }; /* of 2022: every release that tt_ort_library takes */

/* Appends y = Identity(c) of a constant c. */
static bool pack_model(int64_t ir_version, int64_t opset, struct tt_text *out_bytes) {
    int64_t dims[] = {1};
    float data[] = {0};
    Onnx__Tensor constant = ONNX__TENSOR__INIT;
    constant.name = (char[]){"c"};
    constant.n_dims = constant.n_float_data = 1;
    constant.dims = dims;
    constant.has_data_type = true;
    constant.data_type = 1; /* FLOAT */
    constant.float_data = data;
    char *inputs[] = {(char[]){"c"}}, *outputs[] = {(char[]){"y"}};
    Onnx__Node node = ONNX__NODE__INIT, *nodes[] = {&node};
    node.op_type = (char[]){"Identity"};
    node.n_input = node.n_output = 1;
    node.input = inputs;
    node.output = outputs;
    Onnx__Value value = ONNX__VALUE__INIT, *values[] = {&value};
    value.name = outputs[0];
    Onnx__Tensor *constants[] = {&constant};
    Onnx__Graph graph = ONNX__GRAPH__INIT;
    graph.name = (char[]){"version"};
    graph.n_node = graph.n_output = graph.n_initializer = 1;
    graph.node = nodes;
    graph.output = values;
    graph.initializer = constants;
    Onnx__OperatorSet set = ONNX__OPERATOR_SET__INIT, *sets[] = {&set};
    set.domain = (char[]){""};
    set.has_version = true;
    set.version = opset;
    Onnx__Model model = ONNX__MODEL__INIT;
    model.has_ir_version = true;
    model.ir_version = ir_version;
    model.graph = &graph;
    model.n_opset_import = 1;
    model.opset_import = sets;
    char *to = tt_text_reserve(out_bytes, onnx__model__get_packed_size(&model));
    if (to)
        out_bytes->length += onnx__model__pack(&model, (uint8_t *)to);
    return to != NULL;
}

/* TT_OK: the library makes a session of such a file. */
static enum tt_err try_versions(const struct tt_ort_library *library, int64_t ir_version,
                                int64_t opset, struct tt_error *why) {
    OrtSessionOptions *options = NULL;
    OrtSession *session = NULL;
    struct tt_text bytes;
    tt_text_init(&bytes);
    enum tt_err err = pack_model(ir_version, opset, &bytes)
                          ? TT_OK
                          : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    if (!err)
        err = tt_ort_session_options_new(library, TT_ORT_OPTIMIZE_NONE, &options, why);
    if (!err)
        err = tt_ort_check(library,
                           library->api->CreateSessionFromArray(library->env, bytes.bytes,
                                                                bytes.length, options, &session),
                           why);
    if (session)
        library->api->ReleaseSession(session);
    if (options)
        library->api->ReleaseSessionOptions(options);
    tt_text_fini(&bytes);
    return err;
}

/* The highest version below `above` that works; the other number is fixed. 0: none. */
static int64_t highest(const struct tt_ort_library *library, int64_t above, bool of_opset) {
    int64_t low = 0, high = above;
    struct tt_error ignored;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        enum tt_err err = of_opset ? try_versions(library, USUAL_IR, middle, &ignored)
                                   : try_versions(library, middle, USUAL_OPSET, &ignored);
        *(err ? &high : &low) = middle;
    }
    return low;
}

enum tt_err tt_ort_check_versions(const void *shared, int64_t ir_version, int64_t opset,
                                  struct tt_error *why) {
    const struct tt_ort_library *library = shared;
    /* One at a time: either number is at fault. */
    if (opset > 0 && try_versions(library, USUAL_IR, opset, why)) {
        int64_t limit = highest(library, opset, true);
        return tt_fail(TT_ERR_UNSUPPORTED, why,
                       "it needs opset %lld, and ONNX Runtime %s runs opsets up to %lld; export it "
                       "with opset_version=%lld or lower",
                       (long long)opset, library->version, (long long)limit, (long long)limit);
    }
    if (ir_version > 0 && try_versions(library, ir_version, USUAL_OPSET, why))
        return tt_fail(TT_ERR_UNSUPPORTED, why,
                       "it has IR version %lld, and ONNX Runtime %s reads versions up to %lld; set "
                       "model.ir_version before it is saved, or export it with an older release",
                       (long long)ir_version, library->version,
                       (long long)highest(library, ir_version, false));
    return TT_OK;
}

#include "engine/onnxruntime/ort_check.h"

#include <stdio.h>
#include <string.h>

static enum tt_err kind_of(OrtErrorCode code, const char *message) {
    if (strstr(message, "bad_alloc") || strstr(message, "Failed to allocate memory") ||
        strstr(message, "Available memory of")) /* the arena's limit */
        return TT_ERR_NO_MEMORY;
    switch (code) {
    case ORT_NO_SUCHFILE:
    case ORT_NO_MODEL: return TT_ERR_NOT_FOUND;
    case ORT_NOT_IMPLEMENTED: return TT_ERR_UNSUPPORTED;
    case ORT_EP_FAIL:
    case ORT_ENGINE_ERROR: return TT_ERR_INTERNAL;
    case ORT_OK:
    case ORT_FAIL:
    case ORT_INVALID_ARGUMENT:
    case ORT_RUNTIME_EXCEPTION:
    case ORT_INVALID_PROTOBUF:
    case ORT_MODEL_LOADED:
    case ORT_INVALID_GRAPH:
    default: return TT_ERR_INVALID;
    }
}

enum tt_err tt_ort_check(const struct tt_ort_library *library, OrtStatus *take_status,
                         struct tt_error *why) {
    if (!take_status)
        return TT_OK;
    const char *message = library->api->GetErrorMessage(take_status);
    enum tt_err err = kind_of(library->api->GetErrorCode(take_status), message);
    if (why)
        tt_ort_plain_sentence(message, why->text, sizeof(why->text));
    library->api->ReleaseStatus(take_status);
    return err;
}

/* Skips "/some/file.cc:123 full::function(signature) " at the start, if present. The signature
 * contains spaces, so its end is found by matching brackets. */
static const char *skip_place(const char *text) {
    size_t place = strcspn(text, " ");
    const char *source = strstr(text, ".cc:");
    if (!source)
        source = strstr(text, ".h:");
    if (!source || (size_t)(source - text) >= place)
        return text;
    const char *at = text + place;
    const char *close = strchr(at, '(');
    int depth = 0;
    for (; close && *close; close++) {
        depth += *close == '(' ? 1 : *close == ')' ? -1 : 0;
        if (depth == 0)
            break;
    }
    if (!close || !*close)
        return *at ? at + 1 : text;
    at = close + 1;
    if (strncmp(at, " const", 6) == 0)
        at += 6;
    if (strncmp(at, " [with ", 7) == 0) {
        const char *end = strchr(at, ']');
        at = end ? end + 1 : at;
    }
    while (*at == ' ' || *at == ':')
        at++;
    return *at ? at : text;
}

/* Skips the part that says that a model was loaded, and from which file: the caller reports
 * that. */
static const char *skip_preface(const char *text) {
    static const char loading[] = "Load model from ", failed[] = " failed:";
    static const char starting[] = "Exception during initialization: ";
    if (strncmp(text, loading, sizeof(loading) - 1) == 0) {
        const char *end = strstr(text, failed);
        text = end ? end + sizeof(failed) - 1 : text;
    }
    if (strncmp(text, starting, sizeof(starting) - 1) == 0)
        text += sizeof(starting) - 1;
    return text;
}

void tt_ort_plain_sentence(const char *message, char *out, size_t capacity) {
    /* "Non-zero status code returned while running Gather node. Name:'x' Status Message: sentence"
     */
    static const char head[] = "Non-zero status code returned while running ";
    static const char label[] = "Status Message: ";
    char node[160] = "";
    if (strncmp(message, head, sizeof(head) - 1) == 0) {
        const char *name = message + sizeof(head) - 1;
        const char *end = strstr(name, " node.");
        if (end)
            snprintf(node, sizeof(node), "%.*s: ", (int)(end - name), name);
    }
    const char *text = message;
    for (const char *inner = text; (inner = strstr(inner, label)) != NULL;) {
        inner += sizeof(label) - 1;
        text = inner;
    }
    text = skip_place(skip_preface(text));
    snprintf(out, capacity, "%s%s", node, text);
    size_t length = strlen(out);
    while (length && (out[length - 1] == '\n' || out[length - 1] == ' '))
        out[--length] = '\0';
    for (char *c = out; *c; c++)
        if (*c == '\n' || *c == '\r' || *c == '\033')
            *c = ' ';
    static const char locale[] = "Failed to construct locale with name:";
    if (strstr(out, locale)) /* text models of scikit-learn name one that images often lack */
        snprintf(out + length, capacity - length,
                 "; install that locale (Debian: locales-all), or change `locale` in the model");
}

/* The repository's half of kserve_pages.h. */
#include "net/kserve/kserve_pages.h"

#include "net/json/json_tensor.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct index {
    struct tt_text *json;
    bool only_ready, any;
};

static void index_entry(void *context, const char *name, const char *version, const char *state,
                        const char *reason) {
    struct index *index = context;
    if (index->only_ready && strcmp(state, "READY") != 0)
        return;
    const char *const members[] = {"\"name\":", ",\"version\":", ",\"state\":", ",\"reason\":"};
    const char *const values[] = {name, version, state, reason};
    tt_text_puts(index->json, index->any ? ",{" : "{");
    int count = *version ? 4 : 1; /* of a model that was never loaded there is but the name */
    for (int i = 0; i < count; i++) {
        tt_text_puts(index->json, members[i]);
        tt_json_write_string(index->json, values[i], strlen(values[i]));
    }
    tt_text_puts(index->json, "}");
    index->any = true;
}

/* The body may be empty, or an object with "ready". */
static enum tt_err read_index_request(const char *body, size_t body_bytes, bool *out_only_ready,
                                      struct tt_error *why) {
    struct tt_json json;
    tt_json_init(&json, body, body_bytes, why);
    if (tt_json_peek(&json) == '\0' && json.at == json.end)
        return TT_OK;
    enum tt_err err = tt_json_open(&json, '{');
    bool first = true, more = false;
    while (!err) {
        err = tt_json_next(&json, '}', &first, &more);
        if (err || !more)
            break;
        char key[16];
        err = tt_json_key(&json, key, sizeof(key));
        if (!err)
            err = strcmp(key, "ready") == 0 ? tt_json_bool(&json, key, out_only_ready)
                                            : tt_json_skip(&json);
    }
    return err ? err : tt_json_end(&json);
}

void tt_page_index(const struct tt_route_world *world, const char *body, size_t body_bytes,
                   struct tt_reply *reply) {
    struct tt_error why;
    struct index index = {.json = &reply->body};
    enum tt_err err = read_index_request(body, body_bytes, &index.only_ready, &why);
    if (err) {
        tt_reply_error(reply, err, why.text);
        return;
    }
    tt_text_puts(tt_reply_json(reply), "[");
    tt_serving_index(world->port, index_entry, &index);
    tt_text_puts(&reply->body, "]");
}

/* --- load and unload --- */

static int base64_value(char c) {
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+' || c == '-' ? 62
           : c == '/' || c == '_' ? 63
                                  : -1;
}

/* Into memory of its own; NULL where it is no base64, or memory is out. */
static void *decode_base64(const char *text, size_t length, size_t *out_bytes) {
    unsigned char *bytes = malloc(length / 4 * 3 + 3);
    size_t count = 0;
    uint32_t bits = 0;
    int held = 0;
    while (length && text[length - 1] == '=')
        length--;
    for (size_t i = 0; bytes && i < length; i++) {
        int value = base64_value(text[i]);
        if (value < 0) {
            free(bytes);
            return NULL;
        }
        bits = bits << 6 | (uint32_t)value;
        held += 6;
        if (held >= 8) {
            held -= 8;
            bytes[count++] = (unsigned char)(bits >> held);
        }
    }
    *out_bytes = count;
    return bytes;
}

static const char file_prefix[] = "file:";
enum { FILE_PREFIX_BYTES = sizeof(file_prefix) - 1 };

static enum tt_err take_file(struct tt_model_command *command, const char *key, json_t *value,
                             struct tt_error *why) {
    if (!json_is_string(value))
        return tt_fail(TT_ERR_INVALID, why, "parameter '%s' must be a string in base64", key);
    struct tt_model_file *file = &command->files[command->file_count];
    file->bytes =
        decode_base64(json_string_value(value), json_string_length(value), &file->size_bytes);
    if (!file->bytes)
        return tt_fail(TT_ERR_INVALID, why, "parameter '%s' is no base64", key);
    file->path = strdup(key + FILE_PREFIX_BYTES);
    command->file_count++;
    return file->path ? TT_OK : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
}

static enum tt_err take_parameters(struct tt_model_command *command, json_t *parameters,
                                   struct tt_error *why) {
    const char *key;
    json_t *value;
    command->files = calloc(json_object_size(parameters) + 1, sizeof(*command->files));
    if (!command->files)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    json_object_foreach(parameters, key, value) {
        enum tt_err err = TT_OK;
        if (strcmp(key, "config") == 0) {
            if (!json_is_string(value))
                return tt_fail(TT_ERR_INVALID, why,
                               "parameter 'config' must be a string that holds JSON");
            command->config_json = strdup(json_string_value(value));
            if (!command->config_json)
                err = tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
        } else if (strncmp(key, file_prefix, FILE_PREFIX_BYTES) == 0) {
            err = take_file(command, key, value, why);
        } else if (strcmp(key, "unload_dependents") == 0) {
            if (!json_is_boolean(value)) /* no model has dependents here: nothing follows */
                err = tt_fail(TT_ERR_INVALID, why, "parameter '%s' must be true or false", key);
        } else {
            err = tt_fail(TT_ERR_INVALID, why,
                          "unknown parameter '%s'; known are 'config', 'file:<version>/<name>' and "
                          "'unload_dependents'",
                          key);
        }
        if (err)
            return err;
    }
    return TT_OK;
}

static enum tt_err read_command(struct tt_model_command *command, const char *body,
                                size_t body_bytes, struct tt_error *why) {
    if (body_bytes == 0)
        return TT_OK;
    json_error_t problem;
    json_t *root = json_loadb(body, body_bytes, JSON_REJECT_DUPLICATES, &problem);
    if (!root)
        return tt_fail(TT_ERR_INVALID, why, "JSON, byte %d: %s", problem.position, problem.text);
    json_t *parameters = json_object_get(root, "parameters");
    enum tt_err err = TT_OK;
    if (!json_is_object(root) || (parameters && !json_is_object(parameters)))
        err =
            tt_fail(TT_ERR_INVALID, why, "expected {\"parameters\": {...}} or nothing as the body");
    else if (parameters)
        err = take_parameters(command, parameters, why);
    json_decref(root);
    return err;
}

struct tt_model_command *tt_page_command(const char *model, bool is_load, const char *body,
                                         size_t body_bytes, struct tt_reply *reply) {
    struct tt_model_command *command = NULL;
    struct tt_error why = {{0}};
    enum tt_err err = tt_model_command_new(model, is_load, &command);
    if (!err)
        err = read_command(command, body, body_bytes, &why);
    if (!err)
        return command;
    tt_model_command_free(command);
    tt_reply_error(reply, err, why.text);
    return NULL;
}

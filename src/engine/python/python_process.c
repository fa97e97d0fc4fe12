#include "engine/python/python_process.h"

#include "base/clock.h"
#include "base/packet_socket.h"
#include "base/spawn.h"
#include "base/text.h"
#include "engine/engine_task.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* driver.py and triton_python_backend_utils.py */
extern const unsigned char tt_python_driver[], tt_python_utils[];
extern const size_t tt_python_driver_bytes, tt_python_utils_bytes;

extern char **environ;

enum {
    MAX_VARIABLES = 256,
    MAX_TEXT_BYTES = 1000, /* of a message */
    LEAVING_MS = 1000,     /* from the end of its socket to its own end */
    FRESH_IN = 1,          /* a message brings the file of the input buffer */
    FRESH_OUT = 2          /* and of the output buffer */
};

/* driver.py has the same numbers. */
enum { MESSAGE_MODEL = 1, MESSAGE_RUN, MESSAGE_END };

struct message {
    uint32_t kind; /* MESSAGE_...; of an answer: enum tt_python_reply */
    uint32_t fresh;
    int32_t slot; /* of the outputs; -1: for this batch only */
    int32_t count;
    int64_t size_bytes;
};
_Static_assert(sizeof(struct message) == 24, "as driver.py reads it");

void tt_python_process_init(struct tt_python_process *self) {
    *self = (struct tt_python_process){.pidfd = -1, .socket = -1, .output = -1};
}

void tt_python_process_fini(struct tt_python_process *self) {
    tt_assert(self->pid == 0);
    tt_python_buffer_disown(self->in);
    for (int32_t i = 0; i < TT_PYTHON_SLOTS; i++)
        tt_python_buffer_disown(self->out[i]);
    tt_python_process_init(self);
}

/* ---- starting ---- */

/* What an interpreter and numerical libraries read. All else may be a secret. */
static bool is_passed_on(const char *variable) {
    static const char *const names[] = {"PATH=", "HOME=",   "LANG=",        "LANGUAGE=",
                                        "TZ=",   "TMPDIR=", "VIRTUAL_ENV=", "LD_LIBRARY_PATH=",
                                        "USER="};
    static const char *const families[] = {"LC_", "PYTHON", "OMP_", "OPENBLAS_", "MKL_", "CUDA_"};
    bool is_wanted = false;
    for (size_t i = 0; i < TT_COUNT(names); i++)
        is_wanted |= strncmp(variable, names[i], strlen(names[i])) == 0;
    for (size_t i = 0; i < TT_COUNT(families); i++)
        is_wanted |= strncmp(variable, families[i], strlen(families[i])) == 0;
    return is_wanted;
}

static int open_text(const char *name, const unsigned char *bytes, size_t count) {
    int fd = memfd_create(name, MFD_CLOEXEC);
    while (fd >= 0 && count > 0) {
        ssize_t written = write(fd, bytes, count);
        if (written < 0 && errno != EINTR) {
            close(fd);
            return -1;
        }
        bytes += written > 0 ? written : 0;
        count -= written > 0 ? (size_t)written : 0;
    }
    return fd;
}

static int start_process(const struct tt_python_program *program, int socket, int output,
                         pid_t *out_pid) {
    char parent[32], label[TT_MAX_NAME_BYTES + 32];
    snprintf(parent, sizeof(parent), "%ld", (long)getpid());
    snprintf(label, sizeof(label), "%s:%d", program->name, program->instance);
    const char *args[] = {program->interpreter,
                          "-u",
                          "-B",
                          "/proc/self/fd/4",
                          parent,
                          label, /* which `ps` shows to administrators */
                          NULL};
    const char *variables[MAX_VARIABLES];
    int32_t count = 0;
    for (char **at = environ; *at && count < MAX_VARIABLES - 1; at++)
        if (is_passed_on(*at))
            variables[count++] = *at;
    variables[count] = NULL;
    int driver = open_text("driver.py", tt_python_driver, tt_python_driver_bytes);
    int utils = open_text("triton_python_backend_utils.py", tt_python_utils, tt_python_utils_bytes);
    const int files[] = {TT_SPAWN_NULL, output, output, socket, driver, utils};
    int error = driver >= 0 && utils >= 0 ? tt_spawn_in(program->interpreter, args, variables,
                                                        files, TT_COUNT(files), out_pid)
                                          : errno;
    if (driver >= 0)
        close(driver);
    if (utils >= 0)
        close(utils);
    return error;
}

static json_t *describe_tensors(const struct tt_tensor_spec *specs, int32_t count) {
    json_t *list = json_array();
    for (int32_t i = 0; i < count; i++)
        json_array_append_new(list,
                              json_pack("[ss]", specs[i].name, tt_dtype_name(specs[i].dtype)));
    return list;
}

/* The description of the model, as JSON. Freed by the caller; NULL: no memory. */
static char *describe(const struct tt_python_program *program) {
    const struct tt_signature *signature = program->signature;
    json_t *root = json_pack(
        "{s:s, s:s, s:s, s:i, s:o, s:o}", "name", program->name, "path", program->path, "config",
        program->config_json ? program->config_json : "{}", "instance", (int)program->instance,
        "inputs", describe_tensors(signature->inputs, signature->input_count), "outputs",
        describe_tensors(signature->outputs, signature->output_count));
    char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    return text;
}

/* Sends a message, with the files that it brings. */
static enum tt_err send_message(const struct tt_python_process *self, const struct message *message,
                                const int *files, int32_t file_count, struct tt_error *why) {
    return tt_packet_send(self->socket, (const uint8_t *)message, sizeof(*message), files,
                          file_count, why);
}

/* An input buffer of at least that size, which the process may not know yet. */
static enum tt_err reserve_in(struct tt_python_process *self, size_t size_bytes,
                              struct tt_error *why) {
    if (self->in && self->in->mapped_bytes >= size_bytes)
        return TT_OK;
    struct tt_python_buffer *larger;
    enum tt_err err = tt_python_buffer_new(size_bytes, &larger, why);
    if (err)
        return err;
    tt_python_buffer_disown(self->in);
    self->in = larger;
    self->knows_in = false;
    return TT_OK;
}

static enum tt_err send_model(struct tt_python_process *self,
                              const struct tt_python_program *program, struct tt_error *why) {
    char *text = describe(program);
    size_t length = text ? strlen(text) : 0;
    enum tt_err err = text ? reserve_in(self, length, why)
                           : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a Python process");
    if (!err) {
        memcpy(self->in->bytes, text, length);
        struct message message = {
            .kind = MESSAGE_MODEL, .fresh = FRESH_IN, .size_bytes = (int64_t)length};
        err = send_message(self, &message, &self->in->fd, 1, why);
        self->knows_in = !err;
        if (err)
            err = tt_fail_in(TT_ERR_IO, why, "the Python process takes no message");
    }
    free(text);
    return err;
}

enum tt_err tt_python_process_start(struct tt_python_process *self,
                                    const struct tt_python_program *program, struct tt_error *why) {
    int sockets[2] = {-1, -1}, pipes[2] = {-1, -1};
    tt_assert(self->pid == 0);
    self->knows_in = false;
    memset(self->knows_out, 0, sizeof(self->knows_out));
    int error = 0;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0 ||
        pipe2(pipes, O_CLOEXEC) != 0)
        error = errno;
    if (!error)
        error = start_process(program, sockets[1], pipes[1], &self->pid);
    if (sockets[1] >= 0)
        close(sockets[1]);
    if (pipes[1] >= 0)
        close(pipes[1]);
    self->socket = sockets[0];
    self->output = pipes[0];
    if (!error) {
        self->pidfd = (int)syscall(SYS_pidfd_open, self->pid, 0U);
        error = self->pidfd < 0 ? errno : 0;
    }
    enum tt_err err = TT_OK;
    if (error)
        err = tt_fail(error == ENOENT ? TT_ERR_NOT_FOUND : TT_ERR_IO, why,
                      "cannot start the Python interpreter '%s': %s", program->interpreter,
                      strerror(error));
    if (!err)
        err = fcntl(self->output, F_SETFL, O_NONBLOCK) == 0
                  ? send_model(self, program, why)
                  : tt_fail(TT_ERR_IO, why, "a pipe cannot be read: %s", strerror(errno));
    if (err) {
        struct tt_error how;
        tt_python_process_kill(self);
        tt_python_process_reap(self, &how);
    }
    return err;
}

/* ---- answers ---- */

static enum tt_python_reply receive(const struct tt_python_process *self, struct message *out,
                                    struct tt_error *why) {
    struct {
        struct message message;
        char text[MAX_TEXT_BYTES];
    } answer;
    ssize_t got;
    do
        got = recv(self->socket, &answer, sizeof(answer), 0);
    while (got < 0 && errno == EINTR);
    if (got < (ssize_t)sizeof(answer.message))
        return TT_PYTHON_GONE;
    *out = answer.message;
    if (out->kind < TT_PYTHON_READY || out->kind > TT_PYTHON_DONE)
        return TT_PYTHON_GONE;
    if (out->kind == TT_PYTHON_FAILED)
        tt_fail(TT_OK, why, "%.*s", (int)(got - (ssize_t)sizeof(answer.message)), answer.text);
    return (enum tt_python_reply)out->kind;
}

enum tt_python_reply tt_python_process_started(struct tt_python_process *self,
                                               struct tt_error *why) {
    struct message message;
    enum tt_python_reply reply = receive(self, &message, why);
    return reply == TT_PYTHON_DONE ? TT_PYTHON_GONE : reply;
}

/* ---- batches ---- */

/* A buffer for outputs that no result uses. `*out_slot` is -1 for one that is only for this
 * batch. */
static enum tt_err choose_out(struct tt_python_process *self, int32_t *out_slot,
                              struct tt_python_buffer **out_buffer, struct tt_error *why) {
    int32_t slot = 0;
    while (slot < TT_PYTHON_SLOTS && self->out[slot] && !tt_python_buffer_is_idle(self->out[slot]))
        slot++;
    enum tt_err err = TT_OK;
    *out_slot = slot < TT_PYTHON_SLOTS ? slot : -1;
    if (*out_slot < 0)
        err = tt_python_buffer_new(0, out_buffer, why);
    else if (!self->out[slot])
        err = tt_python_buffer_new(0, &self->out[slot], why);
    if (!err && *out_slot >= 0)
        *out_buffer = self->out[slot];
    return err;
}

/* The process has the batch. */
static bool send_batch(struct tt_python_process *self, int32_t slot,
                       const struct tt_python_buffer *out, int32_t count, size_t size_bytes) {
    struct message message = {
        .kind = MESSAGE_RUN, .slot = slot, .count = count, .size_bytes = (int64_t)size_bytes};
    int files[2];
    int32_t file_count = 0;
    if (!self->knows_in) {
        message.fresh |= FRESH_IN;
        files[file_count++] = self->in->fd;
    }
    if (slot < 0 || !self->knows_out[slot]) {
        message.fresh |= FRESH_OUT;
        files[file_count++] = out->fd;
    }
    struct tt_error why;
    if (send_message(self, &message, files, file_count, &why))
        return false;
    self->knows_in = true;
    if (slot >= 0)
        self->knows_out[slot] = true;
    return true;
}

enum tt_python_reply tt_python_process_run(struct tt_python_process *self,
                                           const struct tt_signature *signature,
                                           const struct tt_engine_valid_members *valid,
                                           struct tt_python_words *scratch, int64_t *out_written_at,
                                           struct tt_error *why) {
    struct tt_python_buffer *out = NULL;
    struct message answer;
    int32_t slot;
    size_t size_bytes = tt_python_batch_bytes(signature, valid);
    enum tt_err err = reserve_in(self, size_bytes, why);
    if (!err)
        err = choose_out(self, &slot, &out, why);
    if (err)
        return TT_PYTHON_FAILED;
    tt_python_batch_write(signature, valid, self->in->bytes);
    *out_written_at = tt_clock_now();
    enum tt_python_reply reply = TT_PYTHON_GONE;
    if (send_batch(self, slot, out, valid->count, size_bytes))
        reply = receive(self, &answer, why);
    if (reply == TT_PYTHON_READY)
        reply = TT_PYTHON_GONE;
    if (reply == TT_PYTHON_DONE) {
        if (answer.size_bytes < 0 ||
            tt_python_buffer_cover(out, (size_t)answer.size_bytes, why) != TT_OK)
            reply = TT_PYTHON_FAILED;
        else
            tt_python_batch_read(signature, valid, out, (size_t)answer.size_bytes, scratch);
    }
    if (slot < 0)
        tt_python_buffer_disown(out);
    return reply;
}

/* ---- the end ---- */

void tt_python_process_ask_to_end(struct tt_python_process *self) {
    const struct message message = {.kind = MESSAGE_END};
    struct tt_error why;
    enum tt_err err = send_message(self, &message, NULL, 0, &why);
    (void)err; /* a process that has ended needs none */
}

void tt_python_process_kill(const struct tt_python_process *self) {
    if (self->pid <= 0)
        return;
    kill(-self->pid, SIGKILL);
    shutdown(self->socket, SHUT_RDWR);
}

static void close_file(int *fd) {
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static bool await_end(const struct tt_python_process *self, int timeout_ms) {
    struct pollfd end = {.fd = self->pidfd, .events = POLLIN};
    int count;
    do
        count = poll(&end, 1, timeout_ms);
    while (count < 0 && errno == EINTR);
    return count > 0;
}

bool tt_python_process_has_ended(const struct tt_python_process *self) {
    return await_end(self, 0);
}

void tt_python_process_finish(const struct tt_python_process *self, struct tt_error *out_how) {
    if (!await_end(self, LEAVING_MS)) {
        tt_python_process_kill(self);
        (void)await_end(self, LEAVING_MS);
    }
    siginfo_t how = {.si_pid = 0};
    if (waitid(P_PID, (id_t)self->pid, &how, WEXITED | WNOHANG | WNOWAIT) != 0 || how.si_pid == 0)
        tt_fail(TT_OK, out_how, "did not end");
    else if (how.si_code == CLD_EXITED)
        tt_fail(TT_OK, out_how, "ended with exit code %d", how.si_status);
    else
        tt_fail(TT_OK, out_how, "ended by signal %d (%s)", how.si_status, strsignal(how.si_status));
}

void tt_python_process_reap(struct tt_python_process *self, struct tt_error *out_how) {
    tt_fail(TT_OK, out_how, "did not start");
    if (self->pid > 0) {
        if (self->pidfd >= 0)
            tt_python_process_finish(self, out_how);
        kill(-self->pid, SIGKILL); /* what it started, too */
        while (waitpid(self->pid, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    self->pid = 0;
    close_file(&self->pidfd);
    close_file(&self->socket);
    close_file(&self->output);
}

/* tutti top [URL]: shows the activity of a server, a line per model, until `q` or Ctrl-C. */
#include "cmd/outcome.h"
#include "cmd/verbs.h"

#include "base/clock.h"
#include "base/instant.h"
#include "client/http_fetch.h"
#include "client/http_login.h"
#include "cmd/top_view.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define GIVE_UP_NS (2 * TT_S)

struct flags {
    const char *url, *metrics_url;
    double interval_s;
    bool once, json, on_screen;
    enum tt_top_order order; /* the order of the choices of --sort */
    struct tt_http_address address, metrics_address;
    struct tt_http_login_options login_options;
    struct tt_http_login login;
    struct termios before;
    struct tt_error problem; /* printed after the screen is restored; "": none */
};

/* --- the terminal --- */

static void screen_on(struct flags *top) {
    struct termios raw;
    if (tcgetattr(STDIN_FILENO, &top->before) == 0) {
        raw = top->before;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        raw.c_cc[VMIN] = 0;
        raw.c_cc[VTIME] = 0;
        tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    fputs("\033[?1049h\033[?25l", stdout); /* alternate screen, no cursor */
}

static void screen_off(struct flags *top) {
    fputs("\033[?25h\033[?1049l", stdout);
    fflush(stdout);
    tcsetattr(STDIN_FILENO, TCSANOW, &top->before);
}

/* Overwrites line by line and clears the rest, so that nothing flickers. */
static void screen_show(const struct tt_text *text) {
    fputs("\033[H", stdout);
    for (const char *at = tt_text_string(text); *at;) {
        size_t length = strcspn(at, "\n");
        fprintf(stdout, "%.*s\033[K\r\n", (int)length, at);
        at += length + (at[length] == '\n');
    }
    fputs("\033[J", stdout);
    fflush(stdout);
}

/* Waits; a key may change the order. False: end. */
static bool wait_for_key(struct flags *top, int64_t until_at) {
    for (;;) {
        int64_t left = until_at - tt_clock_now();
        if (tt_interrupted)
            return false;
        if (left <= 0)
            return true;
        struct pollfd input = {.fd = top->on_screen ? STDIN_FILENO : -1, .events = POLLIN};
        int ready = poll(&input, 1, (int)(left / TT_MS) + 1);
        char key;
        if (ready <= 0)
            continue;
        if (read(STDIN_FILENO, &key, 1) != 1 || key == 'q')
            return false;
        top->order = key == 'r'   ? TT_TOP_BY_RATE
                     : key == 'n' ? TT_TOP_BY_NAME
                     : key == 'b' ? TT_TOP_BY_BAD
                                  : top->order;
    }
}

/* --- reading the server --- */

static enum tt_err look(struct flags *top, struct tt_top_snapshot *out_snapshot,
                        struct tt_error *why) {
    struct tt_text page, index;
    enum tt_err err =
        tt_http_fetch(&top->metrics_address, "/metrics", NULL, GIVE_UP_NS, &page, why);
    if (err)
        return err;
    int64_t at = tt_clock_now();
    tt_text_init(&index); /* a server without an index is shown without states */
    enum tt_err without =
        tt_http_fetch(&top->address, "/v2/repository/index", "{}", GIVE_UP_NS, &index, NULL);
    err = tt_top_snapshot_read(tt_text_string(&page), page.length,
                               without ? NULL : tt_text_string(&index), index.length, at,
                               out_snapshot, why);
    tt_text_fini(&page);
    tt_text_fini(&index);
    return err;
}

static void write_clock(char *out, size_t capacity) {
    time_t now = time(NULL);
    struct tm local;
    localtime_r(&now, &local);
    strftime(out, capacity, "%H:%M:%S", &local);
}

/* `problem`: why there is no newer snapshot; NULL: there is one. */
static void show(const struct flags *top, const struct tt_top_snapshot *before,
                 const struct tt_top_snapshot *after, const char *problem) {
    struct tt_top_table table = {.before = before, .after = after, .order = top->order};
    if (top->json) {
        if (problem)
            return;
        json_t *json = tt_top_table_json(&table);
        json_dumpf(json, stdout, JSON_COMPACT | JSON_REAL_PRECISION(12));
        putchar('\n');
        fflush(stdout);
        json_decref(json);
        return;
    }
    struct tt_text text;
    struct winsize size;
    char clock[16];
    tt_text_init(&text);
    write_clock(clock, sizeof(clock));
    if (!top->once)
        tt_text_printf(&text, "%s://%s  %s  %s\n\n", top->address.scheme, top->address.authority,
                       clock, problem ? problem : "");
    if (top->on_screen && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 4) {
        table.line_limit = size.ws_row - 3;
        table.column_limit = size.ws_col;
        table.colours = !getenv("NO_COLOR"); /* no-color.org */
    }
    tt_top_table_write(&table, &text);
    if (top->on_screen)
        screen_show(&text);
    else if (!problem)
        fputs(tt_text_string(&text), stdout);
    fflush(stdout);
    tt_text_fini(&text);
}

/* Shows that the server cannot be reached; the caller tries again. */
static void show_gone(const struct flags *top, const struct tt_top_snapshot *before,
                      const struct tt_top_snapshot *after, const struct tt_error *why) {
    char text[sizeof(why->text) + 32];
    snprintf(text, sizeof(text), "%s; trying again", why->text);
    if (top->on_screen)
        show(top, before, after, text);
    else
        fprintf(stderr, "tutti top: %s\n", text);
}

static int watch(struct flags *top) {
    struct tt_top_snapshot before = {0}, after = {0};
    struct tt_error why;
    int64_t next_at = tt_clock_now();
    bool has = false, has_both = false;
    int code = 0;
    while (!tt_interrupted) {
        struct tt_top_snapshot snapshot;
        enum tt_err err = look(top, &snapshot, &why);
        if (err && (top->once || !has)) {
            top->problem = why;
            code = 1;
            break;
        }
        if (!err) {
            tt_top_snapshot_fini(&before);
            before = after;
            after = snapshot;
            has_both = has;
            has = true;
            if (has_both || top->on_screen)
                show(top, has_both ? &before : &after, &after, NULL);
        } else {
            show_gone(top, has_both ? &before : &after, &after, &why);
        }
        if (top->once && has_both)
            break;
        next_at = tt_instant_max(tt_clock_now(), next_at + (int64_t)(top->interval_s * 1e9));
        if (!wait_for_key(top, next_at))
            break;
    }
    tt_top_snapshot_fini(&before);
    tt_top_snapshot_fini(&after);
    return code;
}

/* --- the verb --- */

static const struct tt_flag_row flag_rows[] = {
    TT_OPERAND(TT_FLAG_TEXT, "URL", url, false, "the server",
               .default_text = "http://127.0.0.1:8000"),
    TT_TEXT("metrics-url", "URL", metrics_url, NULL,
            "the server of /metrics (default: URL; Triton: http://127.0.0.1:8002)"),
    TT_TEXT("token-file", "FILE", login_options.token_file, NULL,
            "file with the bearer token (default: TUTTI_TOKEN of the environment)"),
    TT_TEXT("tls-ca", "FILE", login_options.tls_ca, NULL,
            "certificates in PEM that sign those of https servers (default: those of the system)"),
    TT_DECIMAL("interval", "SECONDS", interval_s, 0.01, 86400, 1, "time between two updates"),
    TT_SWITCH("once", once, "print one table after one interval and exit"),
    TT_SWITCH("json", json, "print one JSON object per line instead of tables"),
    TT_CHOICE("sort", order, "bad|name|rate", TT_TOP_BY_BAD, "order of the models"),
};

static int run(void *options) {
    struct flags *top = options;
    struct tt_error why;
    enum tt_err err = tt_http_address_parse(top->url, 8000, &top->address, &why);
    if (!err)
        err = tt_http_login_open(&top->login, &top->login_options, &top->address, &why);
    top->metrics_address = top->address;
    if (!err && top->metrics_url) {
        err = tt_http_address_parse(top->metrics_url, 8002, &top->metrics_address, &why);
        top->metrics_address.login = &top->login;
    }
    if (err) {
        tt_http_login_close(&top->login);
        fprintf(stderr, "tutti top: %s\n", why.text);
        return EXIT_USAGE;
    }
    struct sigaction action = {.sa_handler = tt_on_interrupt};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    top->on_screen = !top->once && !top->json && isatty(STDOUT_FILENO) && isatty(STDIN_FILENO);
    if (top->on_screen)
        screen_on(top);
    int code = watch(top);
    tt_http_login_close(&top->login);
    if (top->on_screen)
        screen_off(top);
    if (top->problem.text[0])
        fprintf(stderr, "tutti top: %s\n", top->problem.text);
    return tt_interrupted && !top->on_screen && code == 0 ? EXIT_INTERRUPTED : code;
}

const struct tt_verb tt_verb_top = {
    .name = "top",
    .summary = "watch a server: models, rates, batches, goodput",
    .usage = "[URL] [OPTIONS]",
    .description =
        "Shows the activity of a server. Per model: state, responses and timely responses per "
        "second, share of bad requests, requests in flight, rows per batch, mean waiting, "
        "computing and total times, upper bounds of p50 and p99, objective, policy, and requests "
        "since its start. A narrow screen shows the most important ones. Keys: q ends, b sorts by "
        "bad share, n by name, r by rate.",
    TT_VERB_RUNS(flag_rows, run)};

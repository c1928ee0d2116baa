"""Defines the native code of the thread pool as LLVM IR; `program/native_threads.py` starts it.

Its state is a block of 64-bit words.

`state` is generation << 32 | open << 31 | workers inside. A caller publishes a job by raising the
generation with the bit `open` set; a worker enters by adding one while it is open; the caller
closes the job and waits until nobody is inside. So a worker that comes late never touches an old
job.
"""

from __future__ import annotations

from enum import IntEnum


class PoolWord(IntEnum):
    """Where things stand in the block; what different threads write is kept in separate lines."""

    STATE = 0
    NEXT = 8  # the next task of the job
    JOB = 16
    ARGUMENTS = 17
    TASKS = 18
    SLEEPERS = 24
    BUSY = 32  # someone's job runs, or the pool is being changed
    MUTEX = 40
    CONDITION = 48
    SPIN = 56  # how often a worker looks for work before it sleeps
    STOP = 57
    TEAM = 58  # threads with the caller; 0 before the start
    STARTER = 59  # function that starts the workers
    WAITING = 60  # nanoseconds of work that sleeping workers were not woken for
    HANDLES = 61  # of the workers
    ALLOWED = 62  # bits of the processors they may run on; 0: they are left where they are
    HOME = 63  # 1 + processor of the caller that they were last sent away from
    COUNT = 64


WAKE_NANOSECONDS = 60_000  # what waking a worker costs: less work is not worth it

_WORDS = "\n".join(
    f"  %{word.name.lower()} = getelementptr i64, ptr %pool, i64 {word.value}" for word in PoolWord
)

_ALONE = "call void @fusewire_serial(ptr %job_function, ptr %job_arguments, i64 %job_tasks)"
_HEAD = """
define void @fusewire_parallel(
  ptr %job_function, ptr %job_arguments, i64 %job_tasks, i64 %cost
) #0 {
"""

IN_ORDER = """
; All tasks of a job, one after the other.
define void @fusewire_serial(ptr %function, ptr %arguments, i64 %tasks) #0 {
entry:
  %some = icmp sgt i64 %tasks, 0
  br i1 %some, label %again, label %done
again:
  %task = phi i64 [0, %entry], [%up, %again]
  call void %function(ptr %arguments, i64 %task)
  %up = add i64 %task, 1
  %more = icmp slt i64 %up, %tasks
  br i1 %more, label %again, label %done
done:
  ret void
}
"""
"""The function that runs the tasks of a job on its caller."""

PROCESSORS = 1024  # as many bits has a set of them
_SET = f"[{PROCESSORS // 64} x i64]"
_SEND_AWAY = f"""
; Takes the caller's processor from the workers, where it is not the one they were sent away from
; last. A thread that is woken on its waker's processor, or moved there, waits behind it until the
; system looks for a better place: for many milliseconds, far longer than most jobs.
define internal void @send_away(ptr %pool) #0 {{
entry:
{_WORDS}
  %set = alloca {_SET}
  %bits = load ptr, ptr %allowed
  %none = icmp eq ptr %bits, null
  br i1 %none, label %done, label %look
look:
  %cpu = call i32 @sched_getcpu()
  %wide = sext i32 %cpu to i64
  %here = add i64 %wide, 1
  %before = load i64, ptr %home
  %same = icmp eq i64 %here, %before
  %known = icmp ult i64 %wide, {PROCESSORS}
  %other = xor i1 %same, true
  %go = and i1 %other, %known
  br i1 %go, label %moved, label %done
moved:
  store i64 %here, ptr %home
  %all = load {_SET}, ptr %bits
  store {_SET} %all, ptr %set
  %number = lshr i64 %wide, 6
  %shift = and i64 %wide, 63
  %bit = shl i64 1, %shift
  %others = xor i64 %bit, -1
  %word = getelementptr i64, ptr %set, i64 %number
  %old = load i64, ptr %word
  %new = and i64 %old, %others
  store i64 %new, ptr %word
  %members = load i64, ptr %team
  %threads = load ptr, ptr %handles
  br label %again
again:
  %i = phi i64 [1, %moved], [%up, %each]
  %more = icmp slt i64 %i, %members
  br i1 %more, label %each, label %done
each:
  %index = sub i64 %i, 1
  %slot = getelementptr i64, ptr %threads, i64 %index
  %handle = load i64, ptr %slot
  %ignored = call i32 @pthread_setaffinity_np(i64 %handle, i64 {PROCESSORS // 8}, ptr %set)
  %up = add i64 %i, 1
  br label %again
done:
  ret void
}}

declare i32 @sched_getcpu()
declare i32 @pthread_setaffinity_np(i64, i64, ptr)
"""
_STAY = "define internal void @send_away(ptr %pool) #0 {\n  ret void\n}\n"

SERIAL = f"{IN_ORDER}{_HEAD}  {_ALONE}\n  ret void\n}}\n"
"""A pool without threads."""

_PARALLEL = f"""{IN_ORDER}
; The tasks of a job that this thread comes to.
define internal void @share(ptr %function, ptr %arguments, i64 %tasks, ptr %counter) #0 {{
entry:
  br label %again
again:
  %task = atomicrmw add ptr %counter, i64 1 monotonic
  %more = icmp slt i64 %task, %tasks
  br i1 %more, label %work, label %done
work:
  call void %function(ptr %arguments, i64 %task)
  br label %again
done:
  ret void
}}
{_HEAD}
entry:
  %pool = getelementptr i64, ptr @fusewire_pool, i64 0
{_WORDS}
  %take = cmpxchg ptr %busy, i64 0, i64 1 acquire monotonic
  %mine = extractvalue {{i64, i1}} %take, 1
  br i1 %mine, label %started, label %alone
started:
  %team0 = load i64, ptr %team
  %cold = icmp eq i64 %team0, 0
  br i1 %cold, label %begin, label %ready
begin:
  %function = load ptr, ptr %starter
  call void %function()
  br label %ready
ready:
  %members = load i64, ptr %team
  %lonely = icmp sle i64 %members, 1
  br i1 %lonely, label %release, label %asleep
asleep:
  %workers = sub i64 %members, 1
  %sleeping = load atomic i64, ptr %sleepers monotonic, align 8
  %all = icmp eq i64 %sleeping, %workers
  br i1 %all, label %worth, label %publish
worth:
  %before = load i64, ptr %waiting
  %sum = add i64 %before, %cost
  %small = icmp slt i64 %sum, {WAKE_NANOSECONDS}
  %left.waiting = select i1 %small, i64 %sum, i64 0
  store i64 %left.waiting, ptr %waiting
  br i1 %small, label %release, label %publish
publish:
  call void @send_away(ptr %pool)
  store ptr %job_function, ptr %job
  store ptr %job_arguments, ptr %arguments
  store i64 %job_tasks, ptr %tasks
  store atomic i64 0, ptr %next monotonic, align 8
  call void @raise(ptr %pool, i64 2147483648)
  call void @share(ptr %job_function, ptr %job_arguments, i64 %job_tasks, ptr %next)
  %closed = atomicrmw and ptr %state, i64 -2147483649 acq_rel
  br label %join
join:
  %spins = phi i64 [0, %publish], [%more, %pause]
  %now = load atomic i64, ptr %state acquire, align 8
  %inside = and i64 %now, 2147483647
  %empty = icmp eq i64 %inside, 0
  br i1 %empty, label %done, label %wait
wait:
  PAUSE
  %more = add i64 %spins, 1
  %low = and i64 %more, 255
  %often = icmp eq i64 %low, 0
  br i1 %often, label %yield, label %pause
yield:
  %ignored = call i32 @sched_yield()
  br label %pause
pause:
  br label %join
done:
  store atomic i64 0, ptr %busy release, align 8
  ret void
release:
  store atomic i64 0, ptr %busy release, align 8
  br label %alone
alone:
  {_ALONE}
  ret void
}}

; A new generation, for all workers to see: %flags says whether there is a job.
define void @raise(ptr %pool, i64 %flags) #0 {{
{_WORDS}
  %old = load atomic i64, ptr %state monotonic, align 8
  %number = lshr i64 %old, 32
  %up = add i64 %number, 1
  %shifted = shl i64 %up, 32
  %new = or i64 %shifted, %flags
  store atomic i64 %new, ptr %state seq_cst, align 8
  %sleeping = load atomic i64, ptr %sleepers seq_cst, align 8
  %some = icmp ne i64 %sleeping, 0
  br i1 %some, label %wake, label %done
wake:
  %r0 = call i32 @pthread_mutex_lock(ptr %mutex)
  %r1 = call i32 @pthread_cond_broadcast(ptr %condition)
  %r2 = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %done
done:
  ret void
}}

; Makes the pool one's own, for starting and stopping workers.
define void @acquire(ptr %pool) #0 {{
entry:
{_WORDS}
  br label %try
try:
  %take = cmpxchg ptr %busy, i64 0, i64 1 acquire monotonic
  %mine = extractvalue {{i64, i1}} %take, 1
  br i1 %mine, label %done, label %wait
wait:
  %ignored = call i32 @sched_yield()
  br label %try
done:
  ret void
}}

define void @release(ptr %pool) #0 {{
{_WORDS}
  store atomic i64 0, ptr %busy release, align 8
  ret void
}}

define void @pauses(i64 %count) #0 {{
entry:
  br label %again
again:
  %i = phi i64 [0, %entry], [%up, %again]
  PAUSE
  %up = add i64 %i, 1
  %more = icmp slt i64 %up, %count
  br i1 %more, label %again, label %done
done:
  ret void
}}

define ptr @worker(ptr %pool) #0 {{
entry:
{_WORDS}
  br label %outer
outer:
  %last = phi i64 [0, %entry], [%g, %look], [%g, %work]
  %limit = load atomic i64, ptr %spin monotonic, align 8
  br label %looking
looking:
  %spins = phi i64 [0, %outer], [%more, %idle]
  %s0 = load atomic i64, ptr %state acquire, align 8
  %g0 = lshr i64 %s0, 32
  %new0 = icmp ne i64 %g0, %last
  br i1 %new0, label %got, label %idle
idle:
  PAUSE
  %more = add i64 %spins, 1
  %enough = icmp sgt i64 %more, %limit
  br i1 %enough, label %sleep, label %looking
sleep:
  %r0 = call i32 @pthread_mutex_lock(ptr %mutex)
  %a0 = atomicrmw add ptr %sleepers, i64 1 seq_cst
  br label %check
check:
  %s1 = load atomic i64, ptr %state seq_cst, align 8
  %g1 = lshr i64 %s1, 32
  %new1 = icmp ne i64 %g1, %last
  br i1 %new1, label %awake, label %wait
wait:
  %r1 = call i32 @pthread_cond_wait(ptr %condition, ptr %mutex)
  br label %check
awake:
  %a1 = atomicrmw sub ptr %sleepers, i64 1 seq_cst
  %r2 = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %got
got:
  %s = load atomic i64, ptr %state acquire, align 8
  %g = lshr i64 %s, 32
  %flag = load atomic i64, ptr %stop monotonic, align 8
  %stopped = icmp ne i64 %flag, 0
  br i1 %stopped, label %exit, label %look
look:
  %bit = and i64 %s, 2147483648
  %open = icmp ne i64 %bit, 0
  br i1 %open, label %enter, label %outer
enter:
  %entered = add i64 %s, 1
  %swap = cmpxchg ptr %state, i64 %s, i64 %entered acq_rel monotonic
  %in = extractvalue {{i64, i1}} %swap, 1
  br i1 %in, label %work, label %got
work:
  %function = load ptr, ptr %job
  %job.arguments = load ptr, ptr %arguments
  %count_of_tasks = load i64, ptr %tasks
  call void @share(ptr %function, ptr %job.arguments, i64 %count_of_tasks, ptr %next)
  %left = atomicrmw sub ptr %state, i64 1 acq_rel
  br label %outer
exit:
  ret ptr null
}}

declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @sched_yield()
"""


def parallel_text(triple: str, affinity: bool) -> str:
    """The pool over the block of words at the symbol `fusewire_pool`.

    `affinity`: the system lets threads choose their processors, as Linux does.
    """
    x86 = triple.startswith(("x86_64", "i686", "amd64"))
    pause = "call void @llvm.x86.sse2.pause()" if x86 else ""
    declaration = "declare void @llvm.x86.sse2.pause()\n" if x86 else ""
    block = f"@fusewire_pool = external global [{PoolWord.COUNT} x i64], align 64\n"
    placing = _SEND_AWAY if affinity else _STAY
    return block + _PARALLEL.replace("PAUSE", pause) + placing + declaration

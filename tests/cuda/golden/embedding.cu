extern "C" __global__ void __launch_bounds__(256, 2)
k0_take(const float* __restrict__ x0, const long long* __restrict__ x1, float* b0) {
    const int lane = threadIdx.x;
    const int task = blockIdx.x;
    const int v1 = (task * 256);
    {
        const int i_2 = v1 + lane;
        if (i_2 < min((v1 + 256), 119)) {
            const long long v3 = x1[(i_2 / 17)];
            const int v4 = ((int)fw_minimum(fw_maximum(v3, ((long long)0)), ((long long)49)));
            const float v5 = x0[((v4 * 17) + (i_2 % 17))];
            float t0_6 = v5;
            b0[i_2] = t0_6;
        }
    }
}

"""`python -m airflow_provider_dm.engine.binlog.kernels`: compile the kernels now, for images and fresh machines."""

from airflow_provider_dm.engine.binlog.kernels import build

if __name__ == "__main__":
    build.warm()
    print(f"The binlog kernels are ready in {build.directory()}")

package kafka.test.junit

import java.util.{List => JavaList}

import kafka.test.ClusterConfig
import org.junit.jupiter.api.extension.{ConditionEvaluationResult, ExecutionCondition, Extension, TestTemplateInvocationContext}

/** Stand-in for the run of a test with KRaft, whose brokers would be Kafka's own: it is left out. */
class RaftClusterInvocationContext(name: String, config: ClusterConfig, isCombined: Boolean) extends TestTemplateInvocationContext {
  override def getDisplayName(number: Int): String = s"$name [$number] Type=Raft"
  override def getAdditionalExtensions: JavaList[Extension] =
    JavaList.of((_ => ConditionEvaluationResult.disabled("not with ZooKeeper")): ExecutionCondition)
}
